"""A dead letter: one record of a DLQ topic, as those see it who ask what died and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ringonce.kafka import headers as names
from ringonce.runtime.envelope import open_record

if TYPE_CHECKING:
    from ringonce.domain.notification import Channel, Notification
    from ringonce.kafka.port import Record
    from ringonce.runtime.envelope import Envelope

LONGEST_TIME: Final = 15
"""Digits of a time in milliseconds; what is longer is none."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One of them. `died_at`: seconds since the epoch; what its header does not say is the record's own time.

    `error_class` is empty where the header is missing.
    """

    record: Record
    envelope: Envelope
    error_class: str
    died_at: float

    @property
    def id(self) -> str:
        """Under which it is recorded."""
        return self.envelope.identity.id

    @property
    def root(self) -> str:
        """What it shares with its replays and its original."""
        return self.envelope.identity.root

    @property
    def replay(self) -> int:
        """Which replay of its root it is; 0 for an original."""
        return self.envelope.identity.replay

    @property
    def notification(self) -> Notification | None:
        """What it says; None where it cannot be decoded."""
        return self.envelope.notification

    @property
    def fault(self) -> str | None:
        """Why it can never be delivered as it is, if so."""
        return self.envelope.fault

    @property
    def user(self) -> str:
        """Whose it is; empty where nobody can know."""
        return "" if self.notification is None else self.notification.user_id

    @property
    def event_key(self) -> str:
        """What it is about; empty where it does not say."""
        return "" if self.notification is None else self.notification.event_key

    @property
    def reason(self) -> str:
        """Why it was put here; empty where the header is missing."""
        return self.envelope.hints.reason or ""

    @property
    def status(self) -> int | None:
        """The HTTP status code of its last answer, where there was one."""
        return self.envelope.hints.error_status

    @property
    def error(self) -> str:
        """Its last error."""
        return self.envelope.hints.error or self.fault or ""

    @property
    def maybe_reached(self) -> bool:
        """Whether some attempt may have reached the provider."""
        return self.envelope.hints.maybe_reached

    @property
    def expires_at(self) -> float | None:
        """Seconds since the epoch, where it has an end."""
        return self.envelope.expires_at

    @property
    def standing(self) -> tuple[int, int, int]:
        """Its place among the letters of its root: the highest replay counts, and of copies the last one."""
        return self.replay, self.record.partition.number, self.record.offset


def open_letter(record: Record, channel: Channel | None, now: float) -> DeadLetter:
    """Read a record of a channel's DLQ, or of the router's where `channel` is None.

    `now`: seconds since the epoch.
    """
    error_class, died_at = "", max(0, record.timestamp_ms) / 1000
    for name, value in record.headers:
        if name == names.ERROR_CLASS:
            error_class = (value or b"").decode("utf-8", "replace")[: names.LONGEST_MESSAGE]
        elif name == names.ERROR_TIMESTAMP and value is not None and value.isdigit() and len(value) <= LONGEST_TIME:
            died_at = int(value) / 1000
    return DeadLetter(record, open_record(record, channel, now), error_class, died_at)
