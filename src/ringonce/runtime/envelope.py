"""A polled record, opened: who it is, what it says, and what its headers claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ringonce.domain.identity import Identity, Origin, identify, synthetic_id, valid_id
from ringonce.kafka.codec import Undecodable, decode
from ringonce.kafka.headers import Hints, read

if TYPE_CHECKING:
    from ringonce.domain.notification import Channel, Notification
    from ringonce.kafka.port import Record


class Envelope(NamedTuple):
    """What a record turned out to be.

    `notification` is None when the value cannot be decoded; `fault` is why the record can never be delivered, if so.
    """

    identity: Identity
    origin: Origin
    hints: Hints
    notification: Notification | None
    fault: str | None

    @property
    def expires_at(self) -> float | None:
        """Seconds since the epoch, where the notification has an end."""
        moment = None if self.notification is None else self.notification.expires_at
        return None if moment is None else moment.epoch()


def open_record(record: Record, channel: Channel | None, now: float) -> Envelope:
    """Decode and identify a record.

    Args:
        record: as polled.
        channel: the channel whose topic it came from; None for the router's DLQ, which has none.
        now: seconds since the epoch.
    """
    hints = read(record.headers, now)
    origin = hints.origin or Origin(record.partition.topic, record.partition.number, record.offset, record.timestamp_ms)
    try:
        notification = decode(record.value)
    except Undecodable as error:
        return Envelope(_fallback(record, hints, origin), origin, hints, None, str(error))
    if not valid_id(notification.id):
        fault = "the id is not 1 to 200 visible ASCII characters, or begins like a replay's"
        return Envelope(_fallback(record, hints, origin), origin, hints, notification, fault)
    if channel is not None and notification.channel != channel:
        fault = f"the payload's channel {notification.channel} is not its topic's"
        return Envelope(_fallback(record, hints, origin), origin, hints, notification, fault)
    return Envelope(identify(notification.id, hints.claim), origin, hints, notification, None)


def _fallback(record: Record, hints: Hints, origin: Origin) -> Identity:
    """The identity of a record that brought no valid one of its own."""
    # The router may have had to leave the value behind; then it wrote down whose it was.
    if record.value is None and hints.root is not None and valid_id(hints.root):
        return identify(hints.root, hints.claim)
    return identify(synthetic_id(origin, record.value), hints.claim)
