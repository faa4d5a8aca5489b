"""Looks at a running fleet from outside: what waits in each stage, what each breaker does, what has come to its end."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from ringonce.kafka.lag import Lag
from ringonce.kafka.settings import ConsumerSettings
from ringonce.store.schema import history_by_root, replays_recorded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ringonce.channels.registry import ChannelRow
    from ringonce.demo.scene import Scene
    from ringonce.domain.disposition import Status
    from ringonce.kafka.topics import TopicNames


@dataclass(frozen=True, slots=True)
class ChannelView:
    """One channel at one moment: records that wait by stage, the breaker's state, notifications by status."""

    name: str
    stages: Mapping[str, int] = field(default_factory=dict)
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
            membership = ConsumerSettings(self._scene.kafka, f"{row.name}-sender", "ringonce-demo")
            self._lags[row.name] = self._stack.enter_context(Lag(membership))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def look(self) -> list[ChannelView]:
        """How things are now."""
        ended: dict[str, dict[str, int]] = {}
        for channel, status, rows in history_by_root(self._scene.database):
            ended.setdefault(channel, {})[status] = rows
        breakers = self._log.states()
        return [
            ChannelView(row.name, self._waiting(row), breakers.get(row.name, "closed"), ended.get(row.name, {}))
            for row in self._rows
        ]

    def _waiting(self, row: ChannelRow) -> dict[str, int]:
        lag = self._lags[row.name]
        return {stage.name: lag.of(self._names.stage(row.name, stage.name)) for stage in row.ladder.consumed()}

    def replays_ended(self) -> int:
        """How many replays have come to their end."""
        return replays_recorded(self._scene.database)


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
    """Records that some stage has still before it, as far as has been committed."""
    return sum(sum(view.stages.values()) for view in views)
