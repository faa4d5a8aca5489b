"""I7, memory, descriptors, threads and connections stay flat: looks at each process once a second, from outside."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, fields
from statistics import median
from typing import TYPE_CHECKING, Final, Self

import psutil
from tests.chaos.checker import Verdict, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

INTERVAL: Final = 1.0
MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sample:
    """One look. `t` in monotonic seconds, `rss` in bytes; `connections` are the internet sockets."""

    t: float
    rss: int
    fds: int
    threads: int
    connections: int


@dataclass(slots=True)
class Series:
    """One life of one role: a restart begins another one."""

    role: str
    pid: int
    samples: list[Sample] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """From the first look to the last."""
        return self.samples[-1].t - self.samples[0].t if self.samples else 0.0


@dataclass(frozen=True, slots=True)
class Growth:
    """By how much a process may have grown at the end. `rss_share` is of what it had; the larger of the two counts."""

    rss: int = 24 * MIB
    rss_share: float = 0.25
    fds: int = 8
    threads: int = 4
    connections: int = 8


@dataclass(frozen=True, slots=True)
class Spans:
    """What of a series is compared, in seconds: the first `span` after `warm_up` with the last `span`."""

    warm_up: float = 15.0
    span: float = 10.0

    @property
    def shortest(self) -> float:
        """How long a series has to be to be judged: the two must not overlap."""
        return self.warm_up + 2 * self.span


class Hygiene:
    """``with Hygiene(find):`` looks until the end of the block.

    Args:
        find: the process id of each role that should be running, asked before each look.
    """

    def __init__(self, find: Callable[[], Mapping[str, int]], interval: float = INTERVAL) -> None:
        self._find = find
        self._interval = interval
        self._current: dict[str, tuple[psutil.Process, Series]] = {}
        self._series: list[Series] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hygiene", daemon=True)
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def series(self) -> tuple[Series, ...]:
        """Every life that was seen so far."""
        return tuple(self._series)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more.

        Raises:
            RuntimeError: looking has failed before.
        """
        self._stopping.set()
        self._thread.join()
        if self._failure is not None:
            raise RuntimeError("the look at the processes has failed") from self._failure

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._interval):
                for role, pid in self._find().items():
                    self._look(role, pid)
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever stops this
            self._failure = error

    def _look(self, role: str, pid: int) -> None:
        try:
            process, series = self._of(role, pid)
            with process.oneshot():
                sample = Sample(
                    time.monotonic(),
                    process.memory_info().rss,
                    process.num_fds(),
                    process.num_threads(),
                    len(process.net_connections("inet")),
                )
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return  # it has just ended, or is not reaped yet
        # One that is ending gives back its memory first and closes its files later: that look belongs to no life.
        if sample.rss:
            series.samples.append(sample)

    def _of(self, role: str, pid: int) -> tuple[psutil.Process, Series]:
        known = self._current.get(role)
        # A process id may come again: `is_running` knows by the time of its start.
        if known is not None and known[0].pid == pid and known[0].is_running():
            return known
        fresh = psutil.Process(pid), Series(role, pid)
        self._current[role] = fresh
        self._series.append(fresh[1])
        return fresh


def flat(series: Iterable[Series], allowed: Growth | None = None, spans: Spans | None = None) -> Verdict:
    """I7: whoever lived long enough is not much larger at the end than after it had warmed up."""
    limits, times = allowed or Growth(), spans or Spans()
    judged, grown, lives = 0, [], 0
    most = dict.fromkeys((one.name for one in fields(Sample) if one.name != "t"), 0)
    for life in series:
        lives += 1
        if life.seconds < times.shortest:
            continue
        judged += 1
        for name in most:
            early, late = _levels(life, name, times)
            most[name] = max(most[name], int(late - early))
            limit = getattr(limits, name)
            if name == "rss":
                limit = max(limit, early * limits.rss_share)
            if late - early > limit:
                grown.append(f"{name} of {life.role} ({life.pid}) from {early:.0f} to {late:.0f}")
    text = (
        f"{judged} of {lives} lives long enough; at most {most['rss'] / MIB:+.1f} MiB, {most['fds']:+} descriptors,"
        f" {most['threads']:+} threads, {most['connections']:+} connections"
    )
    return Verdict("I7", judged > 0 and not grown, text + (f": {named(grown)}" if grown else ""))


def _levels(life: Series, name: str, times: Spans) -> tuple[float, float]:
    """The medians of the two spans: one odd look must not count."""
    begin, end = life.samples[0].t + times.warm_up, life.samples[-1].t
    early = [getattr(sample, name) for sample in life.samples if begin <= sample.t <= begin + times.span]
    late = [getattr(sample, name) for sample in life.samples if sample.t >= end - times.span]
    return (median(early), median(late)) if early else (0.0, 0.0)
