"""The stages that a record passes through, as data.

A channel's ladder is `main`, then its retry stages by rising delay, then `dlq`. A stage that was taken out stays in the
ladder as retired: it is still consumed, so that nothing in it is lost, but nothing is forwarded to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAIN: Final = "main"
DLQ: Final = "dlq"


@dataclass(frozen=True, slots=True)
class Stage:
    """One topic of a channel. `delay`: seconds from a record's append until it is due."""

    name: str
    delay: float = 0.0
    retired: bool = False


@dataclass(frozen=True, slots=True)
class Ladder:
    """A channel's stages in the order of their delays, without `main` and `dlq`, which every channel has."""

    retries: tuple[Stage, ...]

    def __post_init__(self) -> None:
        active = [stage.delay for stage in self.retries if not stage.retired]
        if active != sorted(set(active)) or any(delay <= 0 for delay in active):
            raise ValueError("the delays of the retry stages must be positive and rise")
        names = [stage.name for stage in self.retries]
        if len(set(names)) != len(names) or {MAIN, DLQ} & set(names):
            raise ValueError("the names of the stages must differ")

    def consumed(self) -> tuple[Stage, ...]:
        """Every stage that a sender reads, `main` first, retired ones included."""
        return (Stage(MAIN), *self.retries)

    def stage(self, name: str) -> Stage:
        """The stage of that name.

        Raises:
            KeyError: there is none, or it is not one that a sender reads.
        """
        for stage in self.consumed():
            if stage.name == name:
                return stage
        raise KeyError(name)

    def later(self, than: str) -> tuple[Stage, ...]:
        """The active retry stages after `than`; after a retired one, those with a longer delay."""
        active = [stage for stage in self.retries if not stage.retired]
        if than == MAIN:
            return tuple(active)
        here = self.stage(than)
        return tuple(stage for stage in active if stage.delay > here.delay)

    def last(self) -> Stage:
        """The last active retry stage, or `main` where there is none."""
        active = [stage for stage in self.retries if not stage.retired]
        return active[-1] if active else Stage(MAIN)

    def with_delays(self, delays: Mapping[str, float]) -> Ladder:
        """The same ladder with other delays (seconds by stage name).

        Raises:
            KeyError: a name that is no retry stage of this ladder.
            ValueError: the delays no longer rise.
        """
        unknown = set(delays) - {stage.name for stage in self.retries}
        if unknown:
            raise KeyError(", ".join(sorted(unknown)))
        return Ladder(tuple(replace(stage, delay=delays.get(stage.name, stage.delay)) for stage in self.retries))


STANDARD: Final = Ladder((Stage("retry-30s", 30.0), Stage("retry-5m", 300.0)))


def longest_delay(ladders: Iterable[Ladder]) -> float:
    """The longest delay of any stage, in seconds."""
    return max((stage.delay for ladder in ladders for stage in ladder.consumed()), default=0.0)
