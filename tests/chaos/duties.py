"""What each group owes for the records that it has passed, and the database's word on whether it was done."""

from __future__ import annotations

import os
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import psycopg

from ringonce.channels.registry import CHANNELS
from ringonce.domain.stages import DLQ, MAIN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from tests.chaos.follower import Copy

    from ringonce.kafka.topics import TopicNames

ANSWER: Final = 2.0
"""Seconds that a server has for one answer."""


@dataclass(frozen=True, slots=True)
class Duty:
    """What a group owes for each record of a topic: a row in `channel`, or a copy in one of the topics that follow.

    `channel` is None for the router, which writes no rows. A record of the last retry stage may come to lie in `again`,
    which is its own topic, once more. `gates` are the consumers whose gate belongs to the channel; `sender` is the one
    among them that skips a replay when its root has passed.
    """

    group: str
    topic: str
    channel: str | None
    following: tuple[str, ...] = ()
    again: bool = False
    gates: tuple[str, ...] = ()
    sender: str | None = None


def duties(names: TopicNames, channels: Iterable[str]) -> list[Duty]:
    """Every group of a site that has these channels, topic by topic."""
    rows = [CHANNELS[name] for name in channels]
    mains = tuple(names.stage(row.name, MAIN) for row in rows)
    found = [
        Duty(f"{names.prefix}notification-router", names.entry, None, (*mains, names.entry_dlq)),
        Duty(f"{names.prefix}router-dlq", names.entry_dlq, "", gates=("router-dlq",)),
    ]
    for row in rows:
        sender, recorder = f"{row.name}-sender", f"{row.name}-dlq"
        dlq = names.stage(row.name, DLQ)
        for stage in row.ladder.consumed():
            later = tuple(names.stage(row.name, one.name) for one in row.ladder.later(stage.name))
            found.append(
                Duty(
                    names.prefix + sender,
                    names.stage(row.name, stage.name),
                    row.name,
                    (*later, dlq),
                    stage.name != MAIN and not later,
                    (sender, recorder),
                    sender,
                )
            )
        found.append(Duty(names.prefix + recorder, dlq, row.name, gates=(sender, recorder)))
    return found


@dataclass(frozen=True, slots=True)
class Rows:
    """What the database says of some ids: when each came to its end, by (id, channel) and by (consumer, id)."""

    history: Mapping[tuple[str, str], float] = field(default_factory=dict)
    gate: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def ended_at(self, duty: Duty, copy: Copy) -> float | None:
        """When a copy came to its end, seconds since 1970; None while it has not.

        A row that is replaced by `delivered` is dated anew; its gate row never is.
        """
        found = self.history.get((copy.id, duty.channel or ""))
        if found is not None:
            return min([found, *(self.gate.get((gate, copy.id), found) for gate in duty.gates)])
        # A replay whose root has passed the sender's gate is skipped, and gets no row of its own.
        return self.gate.get((duty.sender, copy.root)) if duty.sender and copy.root != copy.id else None


_ENDED: Final = """
SELECT 'row', notification_id, channel, extract(epoch FROM recorded_at)::float8 FROM notifications_log
WHERE notification_id = ANY(%(ids)s) AND status <> 'unknown'
UNION ALL
SELECT 'gate', notification_id, consumer, extract(epoch FROM processed_at)::float8 FROM processed_events
WHERE notification_id = ANY(%(ids)s)
"""


class Registrar:
    """Asks the database in a thread of its own, because one that hangs answers nothing and ends no call either."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection | None = None
        self._thread = ThreadPoolExecutor(1, "registrar")

    def rows(self, ids: Collection[str]) -> Rows | None:
        """What it says of these ids, all at one moment; None while it cannot be asked."""
        answer: Future[Rows] = self._thread.submit(self._ask, sorted(ids))
        try:
            return answer.result(ANSWER)
        except (psycopg.OperationalError, psycopg.InterfaceError):
            self._drop()
        except TimeoutError:
            answer.cancel()
            self._cut()
            self._drop()
        return None

    def _ask(self, ids: list[str]) -> Rows:
        if self._connection is None:
            # Its own limits are shorter than ours: what waits for a lock must not pile up in the server.
            options = f"-c statement_timeout={ANSWER * 800:.0f}"
            self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=2, options=options)
        found = self._connection.execute(_ENDED, {"ids": ids}).fetchall()
        return Rows(
            {(name, channel): moment for kind, name, channel, moment in found if kind == "row"},
            {(consumer, name): moment for kind, name, consumer, moment in found if kind == "gate"},
        )

    def _cut(self) -> None:
        """End the call that hangs: its connection is at its end."""
        connection = self._connection
        if connection is not None and not connection.closed:
            with socket.socket(fileno=os.dup(connection.fileno())) as wire:
                wire.shutdown(socket.SHUT_RDWR)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._thread.submit(connection.close)

    def close(self) -> None:
        """Done asking."""
        self._drop()
        self._thread.shutdown()
