"""Starting, stopping, and noticing that a process stands still."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
import threading
from typing import TYPE_CHECKING, Final, TypeVar

import uvloop

from ringonce.errors import ConfigurationError, InternalError, WorkLeftBehind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ringonce.runtime.clock import Clock

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
STANDSTILL: Final = 60.0
"""Seconds without a beat after which something counts as standing still."""
LOOK: Final = 5.0

DESCRIPTORS: Final = 128
"""What a process may have open beside its send slots: connections to Kafka and the database, the loop, logs, libraries.

A sender has some 45, and 60 for the moments in which its silent members ask whether they have missed something; with
more brokers it has more.
"""

T = TypeVar("T")


def require_descriptors(slots: int = 0) -> None:
    """See that a process with so many send slots can open what it needs; raises its soft limit where it may.

    Raises:
        ConfigurationError: the limit is too low, and the process may not raise it.
    """
    needed = DESCRIPTORS + slots
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    most = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < needed:
        beside = f" beside {slots} send slots (MAX_IN_FLIGHT)" if slots else ""
        raise ConfigurationError(
            [f"this process may open {most} files (`ulimit -n`) and needs {DESCRIPTORS}{beside}: {needed}"]
        )


def run_async(role: Callable[[asyncio.Event], Awaitable[T]]) -> T:
    """Run a role on uvloop; the first SIGTERM or SIGINT sets its event, a second one ends the process at once."""

    async def main() -> T:
        _spare_the_collector()
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, _signalled, stop)
        return await role(stop)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


def _spare_the_collector() -> None:
    """Keep the garbage collector from walking, many times a second, what lives as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _signalled(stop: asyncio.Event | threading.Event) -> None:
    if stop.is_set():
        os._exit(WorkLeftBehind.exit_code)
    stop.set()


def run_sync(role: Callable[[threading.Event], T]) -> T:
    """Run a role that polls by itself, with the same signals.

    It may look at the event and must not wait for it: the handler runs in this same thread, and a signal that comes
    while `Event.wait` holds the event's lock would wait for that lock for ever.
    """
    _spare_the_collector()
    stop = threading.Event()
    for number in SIGNALS:
        signal.signal(number, lambda *_: _signalled(stop))
    return role(stop)


class Watchdog:
    """Ends the process with exit 6 when something in it stands still: a supervisor can only help one that is gone.

    `beats`: by name, when each loop was last seen to turn, or work to make progress (monotonic seconds). Waiting for a
    database, a breaker or a due time is no standstill: whoever gives the beat says so.
    """

    def __init__(self, beats: Mapping[str, Callable[[], float]], clock: Clock) -> None:
        self._beats = beats
        self._clock = clock
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def still(self) -> str | None:
        """The name of what stands still, if something does."""
        now = self._clock.monotonic()
        return next((name for name, beat in self._beats.items() if now - beat() > STANDSTILL), None)

    def _run(self) -> None:
        suspect = None
        while not self._stopping.wait(LOOK):
            # Seen twice: after the whole process was stopped for long, this thread may be the first that goes on.
            suspect, before = self.still(), suspect
            if suspect is not None and suspect == before:
                # No logging here: whatever stands still may hold its lock.
                sys.stderr.write(f"watchdog: {suspect} has stood still for {STANDSTILL:g} s; exiting\n")
                sys.stderr.flush()
                os._exit(InternalError.exit_code)
