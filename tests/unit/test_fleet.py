"""A fleet of real child processes: tiny shell scripts in place of the roles."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.fixtures.waiting import eventually

from ringonce.errors import ConfigurationError
from ringonce.fleet import commands
from ringonce.fleet.child import Patience
from ringonce.fleet.plan import Member
from ringonce.fleet.supervisor import Fleet, FleetEnded, FleetLeftWork

if TYPE_CHECKING:
    from pathlib import Path

WORKING = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.02; done"
DEAF = "trap '' TERM; echo ready; while :; do sleep 0.02; done"
LEAVING = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.02; done"
SHORT = Patience(first_pause=0.01, longest_pause=0.04, settled=60.0, grace=0.3)


class Troupe:
    """A fleet of scripts by name, and what has been heard of each."""

    def __init__(self, scripts: dict[str, str], patience: Patience = SHORT) -> None:
        members = [Member(name, ("/bin/sh", "-c", script)) for name, script in scripts.items()]
        self.heard: dict[str, list[str]] = {name: [] for name in scripts}
        self.stop = asyncio.Event()
        self._fleet = Fleet(members, {"PATH": "/usr/bin:/bin"}, self._hear, patience)

    def _hear(self, member: Member, line: str) -> None:
        self.heard[member.name].append(line)

    def start(self) -> asyncio.Task[None]:
        """Let it play."""
        return asyncio.create_task(self._fleet.run(self.stop))

    async def heard_of_all(self, line: str) -> None:
        """Wait until every member has said so."""
        await eventually(lambda: all(line in lines for lines in self.heard.values()), so_far=lambda: self.heard)


async def test_an_orderly_stop() -> None:
    """Every member is asked, and heard to its end."""
    troupe = Troupe({"one": WORKING, "two": WORKING})
    playing = troupe.start()
    await troupe.heard_of_all("ready")
    troupe.stop.set()
    await playing
    assert troupe.heard == {"one": ["ready", "bye"], "two": ["ready", "bye"]}


async def test_a_stop_while_it_starts() -> None:
    """Nobody is left behind: whoever has begun is asked to end."""
    troupe = Troupe({"one": DEAF, "two": WORKING})
    playing = troupe.start()
    troupe.stop.set()
    await asyncio.wait_for(playing, 20)


async def test_a_member_that_ends_is_started_again_ever_later() -> None:
    """With pauses that double, up to the longest; the others do not notice."""
    troupe = Troupe({"one": "echo up; exit 7", "two": WORKING})
    playing = troupe.start()
    await eventually(lambda: troupe.heard["one"].count("up") >= 5, so_far=lambda: troupe.heard)
    troupe.stop.set()
    await playing
    said = [line for line in troupe.heard["one"] if line != "up"]
    assert said[:4] == [
        f"ended with exit code 7; starting again in {pause} s" for pause in ("0.01", "0.02", "0.04", "0.04")
    ]
    assert troupe.heard["two"] == ["ready", "bye"]


async def test_a_member_that_had_settled_is_started_again_soon() -> None:
    """Its crash is a new one, not the next of a row."""
    patience = Patience(first_pause=0.01, longest_pause=60.0, settled=0.0)
    troupe = Troupe({"one": "kill -9 $$"}, patience)
    playing = troupe.start()
    await eventually(lambda: len(troupe.heard["one"]) >= 3, so_far=lambda: troupe.heard)
    troupe.stop.set()
    await playing
    assert set(troupe.heard["one"]) == {"ended with signal SIGKILL; starting again in 0.01 s"}


async def test_a_stop_does_not_wait_for_a_pause() -> None:
    troupe = Troupe({"one": "exit 1"}, Patience(first_pause=3600.0))
    playing = troupe.start()
    await eventually(lambda: troupe.heard["one"], so_far=lambda: troupe.heard)
    troupe.stop.set()
    await asyncio.wait_for(playing, 20)


@pytest.mark.parametrize("code", [2, 3])
async def test_wrong_settings_end_the_fleet(code: int) -> None:
    """Starting again would not mend them: the others are stopped in order, and the exit code is the member's."""
    troupe = Troupe({"one": f"echo '{code} is wrong'; exit {code}", "two": WORKING})
    with pytest.raises(FleetEnded, match=f"one ended with exit code {code}; the fleet was stopped") as caught:
        await troupe.start()
    assert caught.value.exit_code == code
    assert troupe.heard["one"] == [f"{code} is wrong"]


async def test_work_left_behind_is_told() -> None:
    """By how many, with the same exit code."""
    troupe = Troupe({"one": LEAVING, "two": WORKING, "three": LEAVING})
    playing = troupe.start()
    await troupe.heard_of_all("ready")
    troupe.stop.set()
    with pytest.raises(FleetLeftWork, match="2 members") as caught:
        await playing
    assert caught.value.exit_code == 5


async def test_who_does_not_stop_is_killed() -> None:
    """After the grace, with what it has started itself."""
    troupe = Troupe({"one": f"({DEAF}) & echo $!; {DEAF}", "two": WORKING})
    playing = troupe.start()
    await eventually(lambda: troupe.heard["one"].count("ready") == 2, so_far=lambda: troupe.heard)
    await troupe.heard_of_all("ready")
    troupe.stop.set()
    await asyncio.wait_for(playing, 20)
    grandchild = next(int(line) for line in troupe.heard["one"] if line.isdecimal())
    assert troupe.heard["one"][-1] == "did not stop within 0.3 s and is killed; what it held comes again"
    assert troupe.heard["two"] == ["ready", "bye"]
    await eventually(lambda: not psutil.pid_exists(grandchild))


async def test_a_program_that_is_not_there() -> None:
    """Is a fault of the installation, and the others are stopped."""
    troupe = Troupe({"one": WORKING})
    fleet = Fleet([Member("one", ("/bin/sh", "-c", WORKING)), Member("gone", ("/no/such",))], {}, troupe._hear, SHORT)
    troupe.heard["gone"] = []
    with pytest.raises(ConfigurationError, match="/no/such cannot be started: No such file or directory"):
        await asyncio.wait_for(fleet.run(asyncio.Event()), 20)


async def test_a_line_without_an_end_is_left_out() -> None:
    """And what comes after it is heard."""
    troupe = Troupe({"one": f"head -c 3000000 /dev/zero; echo; {WORKING}"})
    playing = troupe.start()
    await troupe.heard_of_all("ready")
    troupe.stop.set()
    await playing
    assert "(more than 1048576 bytes without an end of line, left out)" in troupe.heard["one"]


PARENT = """
import asyncio, sys
from ringonce.fleet.plan import Member
from ringonce.fleet.supervisor import Fleet
script = "trap 'echo told >told; exit 0' TERM; echo $$ >ready; while :; do sleep 0.02; done"
asyncio.run(Fleet([Member("one", ("/bin/sh", "-c", script))], {"PATH": "/usr/bin:/bin"}, print).run(asyncio.Event()))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no-tether: only Linux has it")
async def test_the_children_of_a_fleet_that_is_killed_are_told(tmp_path: Path) -> None:
    """They would run on for ever otherwise."""
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, cwd=tmp_path)
    try:
        await eventually(lambda: (tmp_path / "ready").exists() and (tmp_path / "ready").read_text())
    finally:
        parent.kill()
        await parent.wait()
    await eventually((tmp_path / "told").exists)


def test_lines_stand_behind_their_member(capsys: pytest.CaptureFixture[str]) -> None:
    """All names as wide as the widest; no colours, because this is no terminal."""
    commands._say(8, {"apns": "cyan"}, Member("apns", ()), "started")
    assert capsys.readouterr().out == "apns     | started\n"


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colours_only_where_they_are_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], no_color: str, *, coloured: bool
) -> None:
    """On a terminal, unless NO_COLOR is set to something."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", no_color)
    commands._say(4, {"apns": "cyan"}, Member("apns", ()), "started")
    assert ("\x1b[" in capsys.readouterr().out) is coloured
