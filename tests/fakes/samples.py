"""Records, and what becomes of them, as examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.fakes.clock import EPOCH

from ringonce.channels.registry import CHANNELS, ChannelRow
from ringonce.channels.relay import BodyFormat, Relay
from ringonce.domain.disposition import Status
from ringonce.domain.ledger import Tenure
from ringonce.domain.notification import Channel, Instant, Notification
from ringonce.domain.stages import MAIN
from ringonce.kafka.codec import encode
from ringonce.kafka.port import Partition, Record
from ringonce.runtime.envelope import open_record
from ringonce.runtime.work import Work
from ringonce.store.port import HistoryRow

if TYPE_CHECKING:
    from ringonce.kafka.port import Headers

FIREBASE: Final = CHANNELS["firebase"]
WEBHOOK: Final = CHANNELS["webhook"]
TARGET: Final = "http://provider.example:8091/send"
SECRET: Final = b"a secret"
MAIN_TOPIC: Final = "notification-firebase"


def notification(ident: str = "n-1", **changes: Any) -> Notification:
    """A notification for firebase."""
    return Notification(ident, "user-1", Channel.FIREBASE, "Title", "Body")._replace(**changes)


def expiring(seconds: float, ident: str = "n-1", **changes: Any) -> Notification:
    """A notification that expires so many seconds after the clocks' beginning."""
    moment = EPOCH + seconds
    whole = int(moment // 1)
    return notification(ident, expires_at=Instant(whole, int((moment - whole) * 1e9)), **changes)


def record(
    value: bytes | Notification | None = None,
    *,
    offset: int = 0,
    topic: str = MAIN_TOPIC,
    number: int = 0,
    headers: Headers | None = None,
    timestamp_ms: int = int(EPOCH * 1000),
) -> Record:
    """A polled record; its value is as given, a notification is encoded."""
    raw = encode(value) if isinstance(value, Notification) else value
    return Record(Partition(topic, number), offset, timestamp_ms, b"user-1", raw, headers or [])


def work(
    value: bytes | Notification | None = None,
    *,
    tenure: Tenure | None = None,
    channel: Channel = Channel.FIREBASE,
    stage: str = MAIN,
    **place: Any,
) -> Work:
    """A piece of work whose offset has been delivered in its tenure."""
    polled = record(notification() if value is None else value, **place)
    tenure = tenure or Tenure(*polled.partition)
    tenure.deliver(polled.offset)
    return Work(polled, open_record(polled, channel, EPOCH), tenure, stage)


def row(ident: str = "n-1", status: Status = Status.DELIVERED, **changes: Any) -> HistoryRow:
    """A history row of firebase's."""
    return HistoryRow(ident, "firebase", status, changes.pop("root_id", ident))._replace(**changes)


def relay(
    channel: ChannelRow = FIREBASE, *, body: BodyFormat = BodyFormat.JSON, allowed: tuple[str, ...] = ()
) -> Relay:
    """The relay of a channel."""
    return Relay(channel, TARGET, SECRET, body, allowed)
