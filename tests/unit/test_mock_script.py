from __future__ import annotations

import tracemalloc
import zlib
from itertools import islice

import pytest

from ringonce.mock.decision import Answer, Cut, Silence
from ringonce.mock.faults import Dribble, Faults
from ringonce.mock.script import CHUNK, Pause, Send, Sever, Stand, Step, plain, script


def sent(steps: list[Step]) -> bytes:
    return b"".join(step.data for step in steps if isinstance(step, Send))


def test_silence_stands_still_however_often_it_is_asked() -> None:
    assert list(islice(script(Silence(), Faults()), 3)) == [Stand()] * 3


def test_a_cut_waits_and_severs() -> None:
    assert list(script(Cut(), Faults())) == [Sever()]
    assert list(script(Cut(0.5), Faults())) == [Pause(0.5), Sever()]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(
    "answer", [Answer(200), Answer(503, retry_after="1"), Answer(302, location="/b"), Answer(204), Answer(299)]
)
def test_a_script_sends_what_a_plain_answer_is(answer: Answer, keep: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert sent(list(script(answer, Faults(), keep=keep))) == plain(answer, keep=keep)


def test_an_answer_says_what_it_must() -> None:
    answer = plain(Answer(503, retry_after="60", location="/b", reason='a "reason"'), keep=False)
    top, _, body = answer.partition(b"\r\n\r\n")
    lines = top.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 503 Service Unavailable"
    assert {b"Retry-After: 60", b"Location: /b", b"Connection: close", b"Content-Length: %d" % len(body)} < set(lines)
    assert body == b'{"status": 503, "reason": "a \\"reason\\""}'


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_that_has_no_body_gets_none(status: int) -> None:
    answer = sent(list(script(Answer(status), Faults(body_bytes=10))))
    assert answer.endswith(b"\r\n\r\n")
    assert b"Content-Length" not in answer


@pytest.mark.parametrize("size", [0, 1, CHUNK, CHUNK + 1])
def test_a_body_has_the_wanted_size(size: int) -> None:
    top, _, body = sent(list(script(Answer(200), Faults(body_bytes=size)))).partition(b"\r\n\r\n")
    assert len(body) == size
    assert b"Content-Length: %d" % size in top


def test_a_huge_answer_costs_no_memory() -> None:
    tracemalloc.start()
    size = sum(len(step.data) for step in script(Answer(200), Faults(body_bytes=50_000_000)) if isinstance(step, Send))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size > 50_000_000
    assert peak < 1_000_000


def test_a_bomb_is_small_on_the_wire_only() -> None:
    top, _, body = sent(list(script(Answer(200), Faults(gzip_bomb=True, body_bytes=5_000_000)))).partition(b"\r\n\r\n")
    assert b"Content-Encoding: gzip" in top
    assert b"Content-Length: %d" % len(body) in top
    assert len(body) < 50_000
    assert zlib.decompress(body, wbits=31) == bytes(5_000_000)


@pytest.mark.parametrize("part", [Dribble.HEADERS, Dribble.BODY])
def test_a_dribble_is_one_byte_and_one_pause_at_a_time(part: Dribble) -> None:
    steps = list(script(Answer(200), Faults(dribble=part, dribble_ms=200)))
    whole = plain(Answer(200))
    body = whole.partition(b"\r\n\r\n")[2]
    dribbled = len(body) if part is Dribble.BODY else len(whole) - len(body) - 1
    assert sent(steps) == whole
    assert steps.count(Pause(0.2)) == dribbled
    assert sum(isinstance(step, Send) and len(step.data) == 1 for step in steps) >= dribbled


@pytest.mark.parametrize("faults", [Faults(), Faults(body_bytes=0), Faults(dribble=Dribble.HEADERS, dribble_ms=0)])
def test_the_head_is_complete_exactly_once(faults: Faults) -> None:
    steps = list(script(Answer(200), faults))
    marks = [index for index, step in enumerate(steps) if isinstance(step, Send) and step.head]
    assert len(marks) == 1
    assert sent(steps[: marks[0] + 1]).endswith(b"\r\n\r\n")


def test_a_cut_in_the_middle_leaves_the_head_and_part_of_the_body() -> None:
    steps = list(script(Answer(200, cut=True), Faults(body_bytes=100)))
    assert isinstance(steps[-1], Sever)
    assert isinstance(steps[-2], Pause)
    assert len(sent(steps).partition(b"\r\n\r\n")[2]) == 50
