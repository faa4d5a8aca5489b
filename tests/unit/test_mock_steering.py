from __future__ import annotations

import json

import pytest

from ringonce.mock.faults import Faults, Reset
from ringonce.mock.steering import Steering, Unsteerable, steering_of


def body(mock: object) -> bytes:
    return json.dumps({"id": "n-1", "payloadJson": json.dumps({"mock": mock, "other": 1})}).encode()


@pytest.mark.parametrize(
    ("wish", "steering"),
    [
        ({"status": 410}, Steering(Faults(retry_after="", status=410))),
        ({"status": 429, "retry_after": 60}, Steering(Faults(retry_after="60", status=429))),
        ({"retry_after": 60}, Steering(Faults(retry_after="60", status=503))),
        ({"hang": True, "times": 2}, Steering(Faults(retry_after="", hang=True), times=2)),
        ({"reset": "after"}, Steering(Faults(retry_after="", reset=Reset.AFTER))),
    ],
)
def test_a_message_says_its_answer(wish: object, steering: Steering) -> None:
    assert steering_of(body(wish)) == steering


@pytest.mark.parametrize(
    "ordinary",
    [
        b"",
        b"mock",
        b'"mock"',
        b"[]",
        b'{"mock": {"status": 410}}',
        b'{"payloadJson": "mock"}',
        b'{"payloadJson": 1, "title": "mock"}',
        b'{"payloadJson": "[\\"mock\\"]"}',
        b'{"payloadJson": null, "title": "mock"}',
        b"\xff\x00mock",
        b'{"payloadJson": "' + b"[" * 100_000 + b'mock"}',
        b"[" * 100_000 + b"mock",
        body({}),
        body("hang"),
        body(None),
    ],
)
def test_the_word_alone_steers_nothing(ordinary: bytes) -> None:
    assert steering_of(ordinary) is None


@pytest.mark.parametrize(
    ("wish", "named"),
    [
        ({"state": 410}, "state"),
        ({"status": "gone"}, "STATUS"),
        ({"status": 410, "times": 0}, "times"),
        ({"status": 410, "times": True}, "times"),
        ({"status": 410, "times": "2"}, "times"),
        ({"reset": "before"}, "reset"),
        ({"hang": "maybe"}, "HANG"),
        ({"dedup": True}, "dedup"),
    ],
)
def test_a_misspelt_wish_is_named(wish: object, named: str) -> None:
    with pytest.raises(Unsteerable, match=named):
        steering_of(body(wish))
