"""The supervisor: who dies is replaced, and who dies unannounced is a finding."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

import pytest
from tests.chaos.crew import Crew
from tests.fixtures.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORKER: Final = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("at", os.environ.get("RINGONCE_CRASH_AT", "nothing"), flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew({}, tmp_path)
    crew.watch()
    yield crew
    crew.end()


def said(crew: Crew) -> list[str]:
    """What those at the post have said, one after the other."""
    return crew.logs[0].read_text().splitlines()


async def test_who_dies_is_replaced_and_unannounced_deaths_are_findings(crew: Crew) -> None:
    """The supervisor starts the next one, whatever the last one died of."""
    post = crew.add("one", "python", "-c", WORKER)
    await eventually(lambda: len(said(crew)) == 1)
    first = post.pid
    crew.kill("one")
    await eventually(lambda: len(said(crew)) == 2)
    assert post.pid != first
    assert crew.unexpected() == []
    assert post.process is not None
    post.process.kill()
    await eventually(lambda: len(said(crew)) == 3)
    assert crew.unexpected() == ["one ended with -9"]
    assert [death.code for death in crew.deaths] == [-9, -9]


async def test_only_one_is_told_to_crash(crew: Crew) -> None:
    """The one after it comes as usual."""
    crew.add("one", "python", "-c", WORKER)
    await eventually(lambda: len(said(crew)) == 1)
    crew.crash_at("one", "after_send:3")
    await eventually(lambda: len(said(crew)) == 2)
    crew.kill("one")
    await eventually(lambda: len(said(crew)) == 3)
    assert said(crew) == ["at nothing", "at after_send:3", "at nothing"]
    assert crew.unexpected() == []
    assert crew.wait_death("one", -signal.SIGKILL, 0.0, 1.0)
    assert not crew.wait_death("one", 5, 0.0, 0.1)


async def test_nobody_comes_to_a_post_that_is_closed(crew: Crew) -> None:
    """Its last one's code is what whoever closed it wanted to know."""
    crew.add("one", "python", "-c", WORKER)
    await eventually(lambda: len(said(crew)) == 1)
    assert crew.close("one") == 0
    assert crew.processes() == {}
    starts = crew.starts
    crew.add("two", "python", "-c", WORKER)
    await eventually(lambda: len(crew.logs) == 2)
    assert (crew.starts, list(crew.processes())) == (starts + 1, ["two"])


async def test_at_the_end_everybody_stops_in_order(crew: Crew) -> None:
    """Also who was frozen; whoever does not end with 0 is a finding."""
    for name in ("one", "two"):
        crew.add(name, "python", "-c", WORKER)
    await eventually(lambda: [len(log.read_text().splitlines()) for log in crew.logs] == [1, 1])
    crew.send("two", signal.SIGSTOP)
    crew.stop()
    assert {(death.post, death.code) for death in crew.deaths} == {("one", 0), ("two", 0)}
    assert crew.unexpected() == []
