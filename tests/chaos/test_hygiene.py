from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.chaos.hygiene import MIB, Growth, Hygiene, Sample, Series, Spans, flat
from tests.fixtures.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


def life(shape: Callable[[int], Mapping[str, int]], seconds: int = 120, role: str = "sender") -> Series:
    """A process that is as `shape` says, each second, and unremarkable otherwise."""
    plain = {"rss": 80 * MIB, "fds": 40, "threads": 8, "connections": 12}
    return Series(role, 1, [Sample(float(t), **{**plain, **shape(t)}) for t in range(seconds)])


def test_a_process_that_has_warmed_up_and_stays_as_it_is() -> None:
    verdict = flat([life(lambda t: {"rss": min(t, 10) * 8 * MIB, "fds": 40 + t % 3})])
    assert verdict.ok, verdict


@pytest.mark.parametrize(
    "shape",
    [
        lambda t: {"rss": (80 + t) * MIB},
        lambda t: {"fds": 40 + t // 5},
        lambda t: {"threads": 8 + t // 10},
        lambda t: {"connections": 12 + t // 8},
    ],
)
def test_what_grows_breaks_it(shape: Callable[[int], Mapping[str, int]]) -> None:
    assert not flat([life(lambda _: {}), life(shape)]).ok


def test_how_much_may_grow_is_said() -> None:
    grown = life(lambda t: {"fds": 40 + t // 5})
    assert flat([grown], Growth(fds=30)).ok
    assert not flat([life(lambda t: {"rss": (80 + t) * MIB})], Growth(rss_share=0.5)).ok
    assert flat([life(lambda t: {"rss": (80 + t) * MIB})], Growth(rss_share=1.5)).ok


def test_short_lives_are_not_judged_and_alone_prove_nothing() -> None:
    short = life(lambda t: {"fds": 40 + 10 * t}, seconds=30)
    assert flat([life(lambda _: {}), short]).ok
    assert not flat([short]).ok
    assert not flat([short], spans=Spans(warm_up=5, span=5)).ok


@contextmanager
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def test_a_restart_begins_another_life() -> None:
    roles: dict[str, int] = {}
    with Hygiene(lambda: dict(roles), interval=0.05) as hygiene:
        with sleeper() as first:
            roles["sender"] = first.pid
            await eventually(lambda: hygiene.series and len(hygiene.series[0].samples) >= 3)
        with sleeper() as second:
            roles["sender"] = second.pid
            await eventually(lambda: len(hygiene.series) == 2 and len(hygiene.series[1].samples) >= 3)
    assert [(one.role, one.pid) for one in hygiene.series] == [("sender", first.pid), ("sender", second.pid)]
    sample = hygiene.series[0].samples[-1]
    assert sample.rss > MIB
    assert sample.fds >= 3
    assert (sample.threads, sample.connections) == (1, 0)


async def test_one_that_cannot_look_says_so() -> None:
    def find() -> Mapping[str, int]:
        raise LookupError("who?")

    hygiene = Hygiene(find, interval=0.01)
    hygiene.start()
    await eventually(lambda: not hygiene._thread.is_alive())
    with pytest.raises(RuntimeError, match="has failed"):
        hygiene.stop()
