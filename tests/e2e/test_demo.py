"""The first minute, as a new user has it: without Java, without anything that is up already."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Final

import psutil
import pytest
from tests.fixtures.program import EXECUTABLES
from tests.fixtures.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.database

LAST_LINE: Final = re.compile(r"demo: delivered=(\d+) dlq=(\d+) expired=(\d+) total=100 lost=0")
ROLES: Final = 8


class Demo:
    """A demo in a process of its own, on the stand that needs nothing else.

    Args:
        folder: where it has its stand; two demos may be told the same.
        name: of its log.
    """

    def __init__(self, folder: Path, name: str = "demo") -> None:
        # With a blank: not every checkout is in a path without.
        self._stand = folder / "a stand"
        self._log = folder / f"{name}.log"
        environment = {"PATH": os.environ["PATH"], "STAND": "embedded", "RINGONCE_STAND_DIRECTORY": str(self._stand)}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [EXECUTABLES / "ringonce", "demo"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._seen: dict[int, psutil.Process] = {}

    def text(self) -> str:
        """What it has written."""
        return self._log.read_text(errors="replace")

    def services(self) -> list[str]:
        """The servers that are recorded as running now; their processes are kept in mind."""
        state = self._stand / "demo" / "state.json"
        recorded = json.loads(state.read_text())["services"] if state.exists() else {}
        for entry in recorded.values():
            self._remember(entry["pid"])
        return sorted(recorded)

    def working(self) -> bool:
        """Whether every role of the fleet has started; the processes are kept in mind."""
        self.services()
        log = self._stand / "demo" / "fleet.log"
        for child in psutil.Process(self.process.pid).children(recursive=True):
            self._remember(child.pid)
        return log.exists() and log.read_text().count('"event_type": "Started"') == ROLES

    def _remember(self, pid: int) -> None:
        if pid not in self._seen and psutil.pid_exists(pid):
            self._seen[pid] = psutil.Process(pid)

    def left(self) -> list[str]:
        """What still runs of all that was seen."""
        return [command for process in self._seen.values() if (command := _command(process))]

    def seen(self) -> int:
        """How many processes were seen."""
        return len(self._seen)

    def end(self) -> int:
        """Interrupt it, if it is on; its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)

    def clear(self) -> None:
        """Stop what a demo that was killed has left, where no later one has."""
        down = [str(EXECUTABLES / "ringonce"), "stand", "--directory", str(self._stand / "demo"), "down", "--purge"]
        subprocess.run(down, check=True, timeout=60, stdout=subprocess.DEVNULL)


def _command(process: psutil.Process) -> str:
    """What a process runs; nothing when it has ended, whether or not the system has put it away yet."""
    try:
        return " ".join(process.cmdline()) if process.is_running() else ""
    except psutil.NoSuchProcess:  # a zombie counts as one
        return ""


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    demo = Demo(tmp_path)
    yield demo
    demo.end()
    demo.clear()


async def test_a_hundred_notifications_come_to_their_end(demo: Demo) -> None:
    """Delivered, dead and expired are all seen; the replay delivers what can be; nothing is lost, nothing is left."""
    await eventually(demo.working, so_far=demo.text)
    assert demo.process.wait(150) == 0, demo.text()
    lines = demo.text().splitlines()
    found = LAST_LINE.fullmatch(lines[-1])
    assert found, lines
    delivered, dead, expired = map(int, found.groups())
    assert (delivered + dead + expired, expired) == (100, 2)
    before, after = tables(lines)
    assert before.total() == after.total() == 100
    assert min(before[status] for status in ("delivered", "dlq", "expired")) > 0
    assert after == {"delivered": delivered, "dlq": dead, "expired": expired}
    assert after["delivered"] >= before["delivered"]
    assert (demo.seen() > ROLES, demo.left()) == (True, [])


def tables(lines: list[str]) -> list[Counter[str]]:
    """What each of the printed tables adds up to, by status."""
    found: list[Counter[str]] = []
    for line in lines:
        cells = [cell.strip() for cell in re.split("[│┃]", line)[1:-1]]
        if cells[:1] == ["channel"]:
            found.append(Counter())
        elif len(cells) > 1:
            for status, cell in zip(("delivered", "dlq", "expired"), cells[-3:], strict=True):
                found[-1][status] += int(cell) if cell != "·" else 0
    return found


@pytest.mark.parametrize("moment", ["coming up", "at work"])
async def test_an_interruption_leaves_nothing_running(demo: Demo, moment: str) -> None:
    """Ctrl-C ends it with the shell's code for it; impatient fingers do not make it leave anything."""
    await eventually(demo.working if moment == "at work" else demo.services, so_far=demo.text)
    for _ in range(3):
        demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(60) == 130, demo.text()
    assert demo.text().endswith("ringonce: interrupted; nothing is left running\n")
    assert "Traceback" not in demo.text()
    assert (demo.seen() > 0, demo.left(), demo.services()) == (True, [], [])


async def test_what_a_killed_demo_has_left_is_cleaned_up(demo: Demo, tmp_path: Path) -> None:
    """Its fleet ends by itself, its servers when the next demo begins; while it is on there is no next one."""
    await eventually(demo.working, so_far=demo.text)
    second = Demo(tmp_path, "second")
    assert second.process.wait(30) == 4
    assert "another demo is on" in second.text()

    demo.process.kill()
    demo.process.wait(30)
    await eventually(lambda: not any("--channel" in line for line in demo.left()), so_far=demo.left)
    assert demo.services() == ["kafka", "postgres"]
    third = Demo(tmp_path, "third")
    try:
        await eventually(lambda: not demo.left(), so_far=demo.left)
    finally:
        assert third.end() == 130, third.text()
    assert third.services() == []
