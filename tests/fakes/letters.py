"""Dead letters as examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fakes.clock import EPOCH
from tests.fakes.samples import notification, record

from ringonce.domain.notification import Channel, Notification
from ringonce.runtime.letters import DeadLetter, open_letter

if TYPE_CHECKING:
    from ringonce.kafka.port import Record

DLQ_TOPIC = "notification-firebase-dlq"


def headers(replay: int = 0, root: str = "n-1", **more: str) -> Any:
    """Those of a letter that is the `replay`-th of its root; `more` with underscores for the dots."""
    claim = {"notification.id": f"replay-{replay}-{root}", "replay.of": root, "replay.count": str(replay)}
    usual = {
        "error.class": "Refused",
        "forward.reason": "exhausted",
        "error.status": "503",
        "error.timestamp": str(int(EPOCH * 1000)),
    }
    given = {name.replace("_", "."): text for name, text in more.items()}
    return [(name, text.encode()) for name, text in {**(claim if replay else {}), **usual, **given}.items()]


def dead(
    value: bytes | Notification | None = None, *, replay: int = 0, offset: int = 0, number: int = 0, **more: str
) -> Record:
    """A record of a DLQ: a notification for firebase unless `value` is something else."""
    said = notification() if value is None else value
    root = said.id if isinstance(said, Notification) else "n-1"
    return record(said, topic=DLQ_TOPIC, offset=offset, number=number, headers=headers(replay, root, **more))


def letter(
    value: bytes | Notification | None = None, channel: Channel | None = Channel.FIREBASE, **more: Any
) -> DeadLetter:
    """The same, read."""
    return open_letter(dead(value, **more), channel, EPOCH)
