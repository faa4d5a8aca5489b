from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.waiting import eventually

from ringonce.runtime.affinity import LEAST, LOOK, MOST, TERM, Affinity, Residence

if TYPE_CHECKING:
    from collections.abc import Iterator

several_cores = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs Linux and two cores",
)

BUSY_UNTIL_TOLD = """
import sys, threading
from ringonce.runtime.affinity import Affinity
told = threading.Event()
def listen():
    for line in sys.stdin:
        told.set()
threading.Thread(target=listen, daemon=True).start()
with Affinity(0.05):
    while not told.is_set():
        pass
    told.clear()
    told.wait()
"""


@pytest.mark.parametrize(
    ("used", "kept"), [(0.0, False), (LEAST - 0.01, False), (LEAST, True), (1.0, True), (MOST, True), (1.5, False)]
)
def test_a_process_that_uses_about_one_core_is_kept_on_one(used: float, *, kept: bool) -> None:
    assert Residence().look(0.0, used) is kept


def test_it_is_let_go_when_it_gets_less_of_it() -> None:
    residence = Residence()
    assert residence.look(0.0, 0.95)
    assert residence.look(LOOK, 0.8)
    assert not residence.look(2 * LOOK, 0.5)


def test_it_is_let_go_once_in_a_while_until_the_next_look() -> None:
    residence = Residence()
    looks = [residence.look(n * LOOK, 0.95) for n in range(int(3 * TERM / LOOK))]
    gone = [n * LOOK for n, kept in enumerate(looks) if not kept]
    assert gone == [TERM, 2 * TERM + LOOK]


@contextmanager
def busy() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", BUSY_UNTIL_TOLD], stdin=subprocess.PIPE)
    try:
        yield process
    finally:
        process.communicate(b"idle\nend\n", timeout=30)


def cores(pid: int) -> list[set[int]]:
    """Where each thread may run."""
    return [os.sched_getaffinity(int(thread.name)) for thread in Path(f"/proc/{pid}/task").iterdir()]


@several_cores
async def test_every_thread_of_a_busy_process_is_kept_and_let_go_again() -> None:
    allowed = os.sched_getaffinity(0)
    with busy() as process:
        assert process.stdin is not None

        def together() -> bool:
            found = cores(process.pid)
            return len(found) == 3 and all(one == found[0] and len(one) == 1 for one in found)

        await eventually(together)
        process.stdin.write(b"idle\n")
        process.stdin.flush()
        await eventually(lambda: all(one == allowed for one in cores(process.pid)))


@several_cores
def test_where_the_system_refuses_it_does_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refused = threading.Event()

    def refuse(*_: object) -> None:
        refused.set()
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    with Affinity(0.02) as kept:
        while not refused.is_set():
            pass  # busy, until it would be kept
        kept._thread.join(10)
        assert not kept._thread.is_alive()
    assert "cannot choose its core" in caplog.text


def test_with_one_core_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    before = threading.active_count()
    with Affinity():
        assert threading.active_count() == before
