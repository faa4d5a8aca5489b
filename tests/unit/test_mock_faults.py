from __future__ import annotations

from dataclasses import fields

import pytest

from ringonce.errors import ConfigurationError
from ringonce.mock.faults import Dribble, Faults, Reset


@pytest.mark.parametrize(
    ("knob", "said", "meant"),
    [
        ("FAIL_RATE_503", "0.7", 0.7),
        ("FAIL_RATE_TIMEOUT", 1, 1.0),
        ("LATENCY_MS", 20, 20.0),
        ("RETRY_AFTER", 7, "7"),
        ("RETRY_AFTER", "", ""),
        ("RETRY_AFTER", "Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:00 GMT"),
        ("STATUS", "429", 429),
        ("STATUS", None, None),
        ("HANG", "true", True),
        ("HANG", "0", False),
        ("RESET", "mid", Reset.MID),
        ("RESET", "", Reset.NEVER),
        ("RESET", False, Reset.NEVER),
        ("DRIBBLE", "headers", Dribble.HEADERS),
        ("BODY_BYTES", 0, 0),
        ("DEDUP", True, True),
    ],
)
def test_a_knob_takes_json_and_text(knob: str, said: object, meant: object) -> None:
    assert Faults(status=200, reset=Reset.AFTER).changed({knob: said}).as_knobs()[knob] == meant


@pytest.mark.parametrize(
    ("knob", "said"),
    [
        ("FAIL_RATE_503", 1.1),
        ("FAIL_RATE_503", -0.1),
        ("FAIL_RATE_503", "nan"),
        ("FAIL_RATE_503", True),
        ("FAIL_RATE_503", [0.5]),
        ("LATENCY_MS", "soon"),
        ("LATENCY_MS", 10**400),
        ("STATUS", 199),
        ("STATUS", 600),
        ("STATUS", 200.5),
        ("RETRY_AFTER", "1\r\nX: y"),
        ("RETRY_AFTER", "ü"),
        ("RETRY_AFTER", {}),
        ("HANG", "perhaps"),
        ("HANG", 2),
        ("RESET", "during"),
        ("RESET", ["mid"]),
        ("DRIBBLE", 1),
        ("BODY_BYTES", -1),
    ],
)
def test_a_wrong_value_is_named_with_its_knob(knob: str, said: object) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Faults().changed({knob: said})
    assert len(caught.value.faults) == 1
    assert caught.value.faults[0].startswith(f"{knob}: ")


def test_every_mistake_is_named_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Faults().changed({"FAIL_RATE": 0.5, "STATUS": "teapot", "HANG": True})
    assert [fault.partition(":")[0] for fault in caught.value.faults] == ["FAIL_RATE", "STATUS"]


def test_rates_are_shares_of_the_same_whole() -> None:
    with pytest.raises(ConfigurationError, match="together at most 1"):
        Faults(fail_rate_503=0.6).changed({"FAIL_RATE_TIMEOUT": 0.5})


def test_none_is_the_default_of_its_knob() -> None:
    assert Faults(fail_rate_503=0.5, retry_after="9").changed({"FAIL_RATE_503": None, "RETRY_AFTER": None}) == Faults()


def test_the_environment_may_hold_other_things_too() -> None:
    environment = {"PATH": "/bin", "LATENCY_MS": "20", "HANG": "", "RETRY_AFTER": ""}
    assert Faults.from_environment(environment) == Faults(latency_ms=20.0, retry_after="")


def test_every_field_has_a_knob_that_takes_its_own_value() -> None:
    turned = Faults(fail_rate_503=0.5, reset=Reset.MID, dribble=Dribble.BODY, body_bytes=3, status=302, hang=True)
    assert Faults().changed(turned.as_knobs()) == turned
    assert len(turned.as_knobs()) == len(fields(Faults))
