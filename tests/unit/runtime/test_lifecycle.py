"""Noticing that a process stands still, and stopping one."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ringonce.runtime.lifecycle import STANDSTILL, Watchdog

if TYPE_CHECKING:
    from tests.fakes.clock import FakeClock

HANGING = """
import time
from ringonce.runtime import lifecycle
from ringonce.runtime.clock import SystemClock
lifecycle.LOOK = 0.01
with lifecycle.Watchdog({"the poll loop": lambda: time.monotonic() - 61}, SystemClock()):
    time.sleep(30)
"""

STUBBORN = """
import asyncio, time
from ringonce.runtime.lifecycle import run_async, run_sync
async def role(stop):
    print("ready", flush=True)
    await stop.wait()
    print("stopping", flush=True)
    await asyncio.sleep(30)
def polling(stop):
    print("ready", flush=True)
    while not stop.is_set():
        time.sleep(0.01)
    print("stopping", flush=True)
    time.sleep(30)
"""


def test_a_loop_that_turns_is_left_alone(clock: FakeClock) -> None:
    """Up to a minute between two beats."""
    beats = {"event": clock.monotonic(), "poll": clock.monotonic()}
    watchdog = Watchdog({name: lambda name=name: beats[name] for name in beats}, clock)  # type: ignore[misc]
    clock.advance(STANDSTILL)
    assert watchdog.still() is None
    beats["event"] = clock.monotonic()
    clock.advance(0.1)
    assert watchdog.still() == "poll"
    beats["poll"] = clock.monotonic()
    assert watchdog.still() is None


def test_a_wall_clock_that_jumps_is_no_standstill(clock: FakeClock) -> None:
    """It looks at the monotonic one."""
    beat = clock.monotonic()
    clock.jump(86_400)
    assert Watchdog({"event": lambda: beat}, clock).still() is None


def test_a_loop_that_stands_still_ends_the_process() -> None:
    """With exit 6 and one line that names it."""
    run = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=30, check=False)
    assert (run.returncode, run.stderr) == (6, "watchdog: the poll loop has stood still for 60 s; exiting\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("role", ["run_async(role)", "run_sync(polling)"])
def test_the_first_signal_asks_and_the_second_one_ends(role: str, number: signal.Signals) -> None:
    """Who does not want to wait for the drain may say so; work is left behind then."""
    with subprocess.Popen([sys.executable, "-c", STUBBORN + role], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(number)
        assert process.wait(30) == 5


FEW_FILES = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
from ringonce.errors import ConfigurationError
from ringonce.runtime.lifecycle import require_descriptors
try:
    require_descriptors({slots})
except ConfigurationError as error:
    print(error.faults[0])
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("soft", "hard", "slots", "said"),
    [
        (164, 1000, 36, ["164"]),
        (100, 1000, 64, ["192"]),
        (100, 100, 64, ["this process may open 100 files (`ulimit -n`) and needs 128 beside 64 send slots", "100"]),
        (40, 40, 0, ["this process may open 40 files (`ulimit -n`) and needs 128: 128", "40"]),
    ],
)
def test_a_process_sees_to_it_that_it_can_open_what_it_needs(soft: int, hard: int, slots: int, said: list[str]) -> None:
    """It raises what it may raise, and says before it starts that it would run out of files otherwise."""
    text = FEW_FILES.format(soft=soft, hard=hard, slots=slots)
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=30, check=True)
    for line, beginning in zip(run.stdout.splitlines(), said, strict=True):
        assert line.startswith(beginning)
