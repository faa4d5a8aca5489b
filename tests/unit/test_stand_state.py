"""What the stand remembers about processes, and that it never touches somebody else's."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psutil
import pytest

from ringonce.stand.daemon import Daemon
from ringonce.stand.errors import StandError
from ringonce.stand.plan import Kind, Plan
from ringonce.stand.state import Entry, State

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAITS = (sys.executable, "-c", "import signal; signal.pause()")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon.launch(WAITS, log=tmp_path / "log", record=lambda _: None)
    yield daemon
    daemon.kill()


def test_entries_survive_the_object(tmp_path: Path) -> None:
    entry = Entry(Daemon(4711, 1767225600.25), (19092, 29093))
    State(tmp_path).record("kafka-1", entry)
    State(tmp_path).record("postgres", entry)
    State(tmp_path).forget("postgres")
    assert State(tmp_path).entries() == {"kafka-1": entry}


def test_the_plan_survives_the_object_and_its_services(tmp_path: Path) -> None:
    plan = Plan(Kind.EMBEDDED, kafka_port=20_000, postgres_port=20_001)
    State(tmp_path).remember(plan)
    State(tmp_path).record("kafka", Entry(Daemon(4711, 1767225600.25), (20_000,)))
    State(tmp_path).forget("kafka")
    assert State(tmp_path).plan() == plan
    State(tmp_path).remember(None)
    assert State(tmp_path).plan() is None


def test_changes_by_many_objects_at_once_are_all_kept(tmp_path: Path) -> None:
    """Services start side by side, each with a view of its own, and a lost entry would be a lost process."""
    names = [f"service-{number}" for number in range(40)]
    entry = Entry(Daemon(4711, 1767225600.25), (19092,))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: State(tmp_path).record(name, entry), names))
        assert set(State(tmp_path).entries()) == set(names)
        list(pool.map(lambda name: State(tmp_path).forget(name), names[1:]))
    assert State(tmp_path).entries() == {"service-0": entry}


def test_nothing_recorded_is_nothing_running(tmp_path: Path) -> None:
    assert State(tmp_path / "new").entries() == {}
    assert State(tmp_path / "new").running("kafka-1") is None
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "text",
    [
        '{"services": {}, "plan": {"kind": "wooden"}}',
        "",
        "{",
        "[]",
        '{"services": {"a": {"pid": 1}}}',
        '{"services": []}',
    ],
)
def test_a_broken_record_is_said_and_not_guessed_at(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(StandError, match=r"state\.json cannot be read"):
        State(tmp_path).entries()


def test_a_daemon_is_no_child_and_has_its_own_session(daemon: Daemon) -> None:
    """Ctrl-C in the terminal does not reach it, and it leaves no zombie behind."""
    assert daemon.alive
    ours = psutil.Process()
    assert daemon.pid not in {child.pid for child in ours.children(recursive=True)}
    assert os.getsid(daemon.pid) != os.getsid(0)


def test_a_daemon_does_not_begin_before_it_is_recorded(tmp_path: Path) -> None:
    """A recorder that fails leaves nothing running: the launching shell's pipe ends, the program is never reached."""
    seen: list[Daemon] = []

    def fail(daemon: Daemon) -> None:
        seen.append(daemon)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        Daemon.launch(WAITS, log=tmp_path / "log", record=fail)
    assert seen[0].wait_gone(10)
    assert (tmp_path / "log").read_text() == ""


def test_a_recycled_pid_is_not_ours(daemon: Daemon) -> None:
    """The same pid with another start time is somebody else's process: it counts as gone and is not signalled."""
    stranger = Daemon(daemon.pid, daemon.started - 3600)
    assert not stranger.alive
    stranger.send(signal.SIGKILL)
    stranger.kill()
    stranger.stop(0)
    assert daemon.alive


def test_pause_and_resume(daemon: Daemon) -> None:
    daemon.pause()
    assert psutil.Process(daemon.pid).status() == psutil.STATUS_STOPPED
    assert daemon.alive
    daemon.resume()
    daemon.stop(10)
    assert not daemon.alive


def test_a_paused_daemon_can_be_stopped(daemon: Daemon) -> None:
    daemon.pause()
    daemon.stop(10)
    assert not daemon.alive


def test_kill_takes_the_children_along(tmp_path: Path) -> None:
    script = "sleep 1000 & echo $! >child; wait"
    daemon = Daemon.launch(["/bin/sh", "-c", script], log=tmp_path / "log", record=lambda _: None, directory=tmp_path)
    child = _pid_from(tmp_path / "child")
    assert child.alive
    daemon.kill()
    assert not daemon.alive
    assert not child.alive


def test_the_file_is_readable_by_others_tools(tmp_path: Path) -> None:
    State(tmp_path).remember(Plan())
    State(tmp_path).record("postgres", Entry(Daemon(1, 2.5), (15441,)))
    text = json.loads((tmp_path / "state.json").read_text())
    plan = {"kind": "native", "brokers": 1, "kafka_port": 19092, "postgres_port": 15441}
    assert text == {"plan": plan, "services": {"postgres": {"pid": 1, "started": 2.5, "ports": [15441]}}}


def _pid_from(path: Path) -> Daemon:
    """The process whose pid a script writes to `path`, waited for."""
    deadline = time.monotonic() + 10
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < deadline, "the script wrote no pid"
        time.sleep(0.01)
    pid = int(path.read_text())
    return Daemon(pid, psutil.Process(pid).create_time())
