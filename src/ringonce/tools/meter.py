"""Shows how far a replay has come: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import click

if TYPE_CHECKING:
    from ringonce.runtime.replay import Progress

INTERVAL: Final = 5.0
"""Seconds between two lines."""


class Meter(Protocol):
    """``with meter(limit) as shown: …``; call it with the progress."""

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(self, *_: object) -> None:
        """Leave nothing half-drawn."""
        ...

    def __call__(self, progress: Progress) -> None:
        """So far it has come."""
        ...


def meter(limit: int | None) -> Meter:
    """What suits standard error; `limit`: the most that will be published."""
    if sys.stderr.isatty():
        try:
            return Bar(limit)
        except ModuleNotFoundError:
            pass  # rich comes with ringonce[stand]; lines do as well
    return Lines(limit)


def done_of(progress: Progress, limit: int | None) -> tuple[int, int]:
    """How much is done, of how much: what was looked at, or towards the limit where that comes first."""
    if limit is not None and limit < progress.total:
        return progress.published, limit
    return progress.seen, progress.total


class Lines:
    """See `Meter`."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._since: tuple[float, int] | None = None
        self._due = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, progress: Progress) -> None:
        """A line, when the last one is old enough; none for a replay that takes no time."""
        now = time.monotonic()
        if self._since is None:
            self._since, self._due = (now, progress.published), now + INTERVAL
        if now < self._due or progress.finished:
            return
        self._due = now + INTERVAL
        rate = (progress.published - self._since[1]) / (now - self._since[0])
        done, total = done_of(progress, self._limit)
        rest = f", {(total - done) * (now - self._since[0]) / done:.0f} s left" if done else ""
        click.echo(f"{done} of {total}: replayed {progress.published}, {rate:.0f}/s{rest}", err=True)


class Bar:
    """See `Meter`.

    Raises:
        ModuleNotFoundError: rich is not installed.
    """

    def __init__(self, limit: int | None) -> None:
        # Here, because a production image has the command line but not what the stand needs.
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415
        from rich.progress import Progress as RichProgress  # noqa: PLC0415

        self._limit = limit
        self._since: tuple[float, int] | None = None
        self._bar: Any = RichProgress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}/s"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("replay", total=None, rate="-")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        """The bar moves."""
        now = time.monotonic()
        self._since = self._since or (now, progress.published)
        passed = now - self._since[0]
        rate = f"{(progress.published - self._since[1]) / passed:.0f}" if passed else "-"
        done, total = done_of(progress, self._limit)
        self._bar.update(self._task, completed=done, total=total, rate=rate)
