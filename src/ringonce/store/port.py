"""The store in the words of the domain."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ringonce.domain.disposition import Status


class HistoryRow(NamedTuple):
    """A row of `notifications_log`. Times are seconds since the epoch; `sent_at` is when the provider answered."""

    notification_id: str
    channel: str
    status: Status
    root_id: str
    attempts: int = 0
    user_id: str | None = None
    last_error: str | None = None
    sent_at: float | None = None
    http_status: int | None = None
    stage: str | None = None
    trace_id: str | None = None
    event_key: str | None = None
    replay_of: str | None = None
    maybe_reached: bool = False
    created_at: str | None = None
    expires_at: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The row's key."""
        return self.notification_id, self.channel

    def bare(self) -> HistoryRow:
        """The row with its id, channel and status only, and that it may have reached the provider, if so."""
        return HistoryRow(
            self.notification_id, self.channel, self.status, self.root_id, maybe_reached=self.maybe_reached
        )


class AttemptRow(NamedTuple):
    """A row of `delivery_attempts`, without its node.

    `attempted_at` in seconds since the epoch, `duration` in seconds; `outcome` is the outcome's class, and topic,
    partition and offset say which record was worked on.
    """

    notification_id: str
    attempted_at: float
    channel: str
    root_id: str
    topic: str
    partition: int
    offset: int
    outcome: str
    http_status: int | None
    duration: float


class Gate(NamedTuple):
    """Under which names this process passes the gate: `consumer` such as ``firebase-sender``, `owner` the node."""

    consumer: str
    owner: str


class StoreAway(Exception):  # noqa: N818 - a state of the world, not a mistake
    """The database cannot be asked now, or its answer was lost; nothing is known about what was asked."""


class RowsRefused(Exception):  # noqa: N818 - what the database did
    """The data itself was refused (SQLSTATE classes 21, 22, 23, 54); nothing of the batch was written."""

    def __init__(self, sqlstate: str) -> None:
        self.sqlstate = sqlstate
        super().__init__(f"the database refused the data: SQLSTATE {sqlstate}")


class Store(Protocol):
    """Gate, history and timeline."""

    async def seen(self, consumer: str, ids: Collection[str]) -> set[str]:
        """Which of `ids` have passed the consumer's gate.

        Raises:
            StoreAway: ask again later.
        """
        ...

    async def record(self, gate: Gate, rows: Sequence[HistoryRow]) -> None:
        """Write gate and history rows together, in one transaction.

        `rows` have distinct keys and are sorted by them. A row that is there stays, except that `delivered` replaces
        any other status and every status replaces `unknown`.

        Raises:
            StoreAway: unknown whether it was written; repeating is harmless.
            RowsRefused: one of the rows is at fault; none was written.
        """
        ...

    async def note(self, node: str, attempts: Sequence[AttemptRow]) -> None:
        """Write attempts of `node`; those that are there stay as they are.

        Raises:
            StoreAway: unknown whether they were written; repeating is harmless. What else the store does goes on.
            RowsRefused: one of them is at fault; none was written.
        """
        ...
