"""Keeps a busy sender together on one CPU core.

A sender has two threads that work, the event loop's and the HTTP client's, and Python's one lock between them: they
rarely run at the same time. On two cores they wake each other up and fetch each other's memory instead. So while the
process uses about one core, it is kept on the one that the event loop runs on.

It is let go when it uses less, because there is little to do or because others want that core too, and once in a while
for a moment, to see whether it would use more. Where it runs then is the scheduler's choice, and it is kept there.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Collection

LOOK: Final = 0.5
"""Seconds between two looks at how much the process uses."""

LEAST: Final = 0.7
MOST: Final = 1.1
"""Cores in use, of all its threads together, between which a process is kept on one."""

TERM: Final = 30.0
"""Seconds for which it is kept at most, before it is let go until the next look."""

THREADS: Final = Path("/proc/self/task")
STATUS: Final = Path("/proc/self/stat")

log = logging.getLogger(__name__)


class Residence:
    """Whether a process should be kept on one core."""

    def __init__(self) -> None:
        self._since: float | None = None

    @property
    def kept(self) -> bool:
        """Whether it is."""
        return self._since is not None

    def look(self, now: float, used: float) -> bool:
        """Decide anew. `now` in monotonic seconds; `used` are the cores in use since the last time, such as 0.5."""
        if self._since is None:
            self._since = now if LEAST <= used <= MOST else None
        elif used < LEAST or now - self._since >= TERM:
            self._since = None
        return self.kept


class Affinity:
    """``with Affinity():`` keeps the process on one core while that is good for it.

    It does nothing where the system has no such thing, allows one core only or refuses.
    """

    def __init__(self, interval: float = LOOK) -> None:
        self._interval = interval
        self._allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="affinity", daemon=True)

    def __enter__(self) -> Self:
        if len(self._allowed) > 1:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            self._watch()
        except OSError as error:
            log.warning("this process cannot choose its core, and does without", extra={"reason": error.strerror})

    def _watch(self) -> None:
        residence = Residence()
        at, used = time.monotonic(), time.process_time()
        while not self._stopping.wait(self._interval):
            then, before = at, used
            at, used = time.monotonic(), time.process_time()
            was = residence.kept
            if residence.look(at, (used - before) / (at - then)) is not was:
                _keep_to(self._allowed if was else {_core()})
        if residence.kept:
            _keep_to(self._allowed)


def _core() -> int:
    """The core that the main thread, which is the event loop's, runs on or ran on last.

    Source: proc(5), /proc/pid/stat, field 39; the second field is a name in parentheses and may hold any character.
    """
    after_name = STATUS.read_text().rpartition(")")[2].split()
    return int(after_name[39 - 3])


def _keep_to(cores: Collection[int]) -> None:
    """Every thread there is; those to come inherit it from the one that makes them."""
    for thread in THREADS.iterdir():
        try:
            os.sched_setaffinity(int(thread.name), cores)
        except ProcessLookupError:
            continue  # it has ended
