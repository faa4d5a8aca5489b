"""Looks at a running fleet from outside: what waits in each stage, what each breaker does, what has come to its end."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from ringonce.domain.stages import DLQ
from ringonce.kafka.lag import Lag
from ringonce.kafka.settings import ConsumerSettings
from ringonce.store.schema import history_by_root

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ringonce.channels.registry import ChannelRow
    from ringonce.demo.scene import Scene
    from ringonce.domain.disposition import Status
    from ringonce.kafka.topics import TopicNames


@dataclass(frozen=True, slots=True)
class ChannelView:
    """One channel at one moment.

    Args:
        name: the channel's.
        stages: records that wait, by stage.
        unrecorded: dead letters that have no row yet.
        breaker: its state.
        ended: notifications by status, a replay counted with its original.
    """

    name: str
    stages: Mapping[str, int] = field(default_factory=dict)
    unrecorded: int = 0
    breaker: str = "closed"
    ended: Mapping[str, int] = field(default_factory=dict)


class Watch:
    """Takes one picture after the other."""

    def __init__(self, scene: Scene, rows: Sequence[ChannelRow], names: TopicNames) -> None:
        self._scene = scene
        self._rows = rows
        self._names = names
        self._log = _Breakers(scene.log, {mock.url.partition("//")[2]: name for name, mock in scene.mocks.items()})
        self._stack = ExitStack()
        self._lags: dict[str, Lag] = {}

    def __enter__(self) -> Self:
        for row in self._rows:
            for group in (f"{row.name}-sender", f"{row.name}-dlq"):
                membership = ConsumerSettings(self._scene.kafka, group, "ringonce-demo")
                self._lags[group] = self._stack.enter_context(Lag(membership))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def look(self) -> list[ChannelView]:
        """How things are now."""
        ended: dict[str, dict[str, int]] = {}
        for channel, status, rows in history_by_root(self._scene.database):
            ended.setdefault(channel, {})[status] = rows
        breakers = self._log.states()
        return [self._view(row, breakers.get(row.name, "closed"), ended.get(row.name, {})) for row in self._rows]

    def _view(self, row: ChannelRow, breaker: str, ended: Mapping[str, int]) -> ChannelView:
        # In the order in which records move on: what is gone from one stage can only be in one that is looked at later.
        lag = self._lags[f"{row.name}-sender"]
        stages = {stage.name: lag.of(self._names.stage(row.name, stage.name)) for stage in row.ladder.consumed()}
        unrecorded = self._lags[f"{row.name}-dlq"].of(self._names.stage(row.name, DLQ))
        return ChannelView(row.name, stages, unrecorded, breaker, ended)


class _Breakers:
    """Follows the fleet's log for what the breakers do."""

    def __init__(self, log: Path, hosts: Mapping[str, str]) -> None:
        self._path = log
        self._hosts = hosts  # a webhook's breaker is named after the host that it guards
        self._position = 0
        self._states: dict[str, str] = {}

    def states(self) -> dict[str, str]:
        """The breaker's state by channel, where it has ever changed."""
        if self._path.exists():
            with self._path.open("rb") as log:
                log.seek(self._position)
                for line in log:
                    if not line.endswith(b"\n"):
                        break  # still being written
                    self._position += len(line)
                    self._read(line)
        return self._states

    def _read(self, line: bytes) -> None:
        start = line.find(b"{")
        if start < 0 or b"BreakerChanged" not in line:
            return
        event = json.loads(line[start:])
        self._states[self._hosts.get(event["destination"], event["destination"])] = event["after"]


def total(views: Sequence[ChannelView], status: Status | None = None) -> int:
    """Notifications that have ended, or ended so."""
    return sum(rows for view in views for name, rows in view.ended.items() if status is None or name == status)


def waiting(views: Sequence[ChannelView]) -> int:
    """Records that some stage or recorder has still before it, as far as has been committed."""
    return sum(sum(view.stages.values()) + view.unrecorded for view in views)
