"""One notification's copies, attempts and rows in their order."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.fakes.clock import EPOCH
from tests.fakes.samples import notification, record

from ringonce.domain.identity import Origin, synthetic_id
from ringonce.domain.notification import Channel
from ringonce.domain.stages import DLQ, MAIN
from ringonce.runtime.timeline import ENTRY, Place, Sought, Step, Topic, root_of, timeline
from ringonce.store.archive import Ended, Made

if TYPE_CHECKING:
    from ringonce.kafka.port import Headers

TOPICS = {
    "notification-events": Topic(ENTRY),
    "notification-events-dlq": Topic(DLQ),
    "notification-firebase": Topic(MAIN, Channel.FIREBASE),
    "notification-firebase-retry-30s": Topic("retry-30s", Channel.FIREBASE),
    "notification-firebase-dlq": Topic(DLQ, Channel.FIREBASE),
}
REPLAYED: Headers = [("notification.id", b"replay-1-n-1"), ("replay.of", b"n-1"), ("replay.count", b"1")]


def moment(seconds: float) -> datetime:
    """So many seconds after the clocks' beginning."""
    return datetime.fromtimestamp(EPOCH + seconds, UTC)


def made(seconds: float, outcome: str = "Refused", status: int | None = 503, **changes: Any) -> Made:
    """An attempt on a record of the main topic."""
    one = Made("n-1", moment(seconds), "node-1", "firebase", "notification-firebase", 0, 4, outcome, status, 0.012)
    return replace(one, **changes)


def ended(seconds: float, status: str = "delivered", **changes: Any) -> Ended:
    """A row of the history."""
    nothing: dict[str, Any] = dict.fromkeys(name for name in Ended.__slots__)
    one = Ended(**nothing | {"notification_id": "n-1", "channel": "firebase", "status": status, "attempts": 4})
    return replace(one, recorded_at=moment(seconds), sent_by="node-1", root_id="n-1", maybe_reached=False, **changes)


def stamped(seconds: float) -> int:
    """Milliseconds since the epoch."""
    return int((EPOCH + seconds) * 1000)


def test_everything_in_the_order_of_its_time() -> None:
    """From the entry to the row, through a retry stage, a DLQ and a replay."""
    copies = [
        record(notification(), topic="notification-firebase-dlq", offset=1, timestamp_ms=stamped(4),
               headers=[("error.timestamp", str(stamped(9)).encode()), ("forward.reason", b"exhausted"),
                        ("error.message", b"refused with status 503"), ("error.status", b"503"), ("attempts", b"4"),
                        ("maybe.reached", b"true")]),
        record(notification(), topic="notification-firebase-retry-30s", offset=2, timestamp_ms=stamped(4),
               headers=[("error.timestamp", str(stamped(4)).encode()), ("forward.reason", b"next-retry")]),
        record(notification(), topic="notification-firebase", offset=4, timestamp_ms=stamped(0),
               headers=[("router-node", b"router-1")]),
        record(notification(), topic="notification-events", offset=3, timestamp_ms=stamped(0)),
        record(notification(), topic="notification-firebase", offset=7, timestamp_ms=stamped(20), headers=REPLAYED),
    ]  # fmt: skip
    attempts = [made(1), made(2, "Indeterminate", None), made(21, "Delivered", 200, notification_id="replay-1-n-1")]
    rows = [ended(10, "dlq"), ended(22, notification_id="replay-1-n-1", replay_of="n-1")]
    entries = timeline(copies, attempts, rows, TOPICS)
    assert [(entry.at - EPOCH, entry.step, entry.id) for entry in entries] == [
        (0, Step.ENTERED, "n-1"),
        (0, Step.ROUTED, "n-1"),
        (1, Step.TRIED, "n-1"),
        (2, Step.TRIED, "n-1"),
        (4, Step.FORWARDED, "n-1"),
        (9, Step.BURIED, "n-1"),
        (10, Step.RECORDED, "n-1"),
        (20, Step.REPLAYED, "replay-1-n-1"),
        (21, Step.TRIED, "replay-1-n-1"),
        (22, Step.RECORDED, "replay-1-n-1"),
    ]
    assert (entries[1].node, entries[1].channel, entries[1].place) == (
        "router-1",
        "firebase",
        Place("notification-firebase", 0, 4),
    )
    first = entries[2]
    assert (first.outcome, first.http_status, first.duration, first.node) == ("Refused", 503, 0.012, "node-1")
    dead = entries[5]
    assert (dead.reason, dead.error, dead.http_status, dead.attempts, dead.maybe_reached) == (
        "exhausted",
        "refused with status 503",
        503,
        4,
        True,
    )


def test_a_forward_comes_after_the_calls_of_its_millisecond() -> None:
    """Its time is cut off to a millisecond, a call's is not."""
    headers: Headers = [("error.timestamp", str(stamped(1)).encode()), ("forward.reason", b"next-retry")]
    copy = record(notification(), topic="notification-firebase-retry-30s", timestamp_ms=stamped(1), headers=headers)
    entries = timeline([copy], [made(1.0008), made(1.0002)], [], TOPICS)
    assert [(entry.step, round((entry.at - EPOCH) * 10_000)) for entry in entries] == [
        (Step.TRIED, 10_002),
        (Step.TRIED, 10_008),
        (Step.FORWARDED, 10_000),
    ]


def test_a_replay_into_a_retry_stage_is_no_forward() -> None:
    """Until it is forwarded from there: that says why."""
    topic = "notification-firebase-retry-30s"
    forward: Headers = [*REPLAYED, ("forward.reason", b"next-retry")]
    copies = [record(notification(), topic=topic, headers=headers) for headers in (REPLAYED, forward)]
    assert [entry.step for entry in timeline(copies, [], [], TOPICS)] == [Step.REPLAYED, Step.FORWARDED]


def test_a_copy_without_a_time_of_its_forward_has_its_append_time() -> None:
    """And one whose header is no time as well."""
    for value in (b"soon", b"", None, b"9" * 16):
        headers: Headers = [("error.timestamp", value)]
        copy = record(notification(), topic="notification-firebase-dlq", timestamp_ms=stamped(5), headers=headers)
        [entry] = timeline([copy], [], [], TOPICS)
        assert entry.at == EPOCH + 5


@pytest.mark.parametrize(
    ("ident", "root"),
    [("n-1", "n-1"), ("replay-1-n-1", "n-1"), ("replay-12-replay-x", "replay-x"), ("replay-n-1", "replay-n-1")],
)
def test_a_replays_id_leads_to_its_root(ident: str, root: str) -> None:
    """Whichever of them a person has at hand."""
    assert root_of(ident) == root


def test_what_belongs_to_a_notification() -> None:
    """Its copies and its replays; not another whose text only mentions it, and nothing that cannot be read."""
    sought = Sought("n-1", TOPICS)
    assert sought(record(notification(), topic="notification-events"))
    assert sought(record(notification(), headers=REPLAYED))
    assert not sought(record(notification("n-10")))
    assert not sought(record(notification("other", body="about n-1")))
    assert not sought(record(b"\xff n-1"))
    assert not sought(record(None))


def test_a_record_of_another_channels_topic_is_found_by_either_id() -> None:
    """By the one that it brought, and by the one under which it is recorded."""
    value = notification(channel=Channel.APNS)
    stray = record(value, offset=9)
    made_up = synthetic_id(Origin(*stray.partition, 9, stray.timestamp_ms), stray.value)
    assert Sought("n-1", TOPICS)(stray)
    assert Sought(made_up, TOPICS)(stray)


def test_a_record_without_an_id_is_found_by_the_one_that_was_made_up() -> None:
    """Where it entered, and in every copy, by its header `origin`; not at the same place of another topic."""
    origin = Origin("notification-events", 2, 40, stamped(1))
    made_up = synthetic_id(origin, b"\xff")
    sought = Sought(made_up, TOPICS)
    assert sought(record(b"\xff", topic="notification-events", number=2, offset=40, timestamp_ms=stamped(1)))
    copy = record(b"\xff", topic="notification-events-dlq", headers=[("origin", str(origin).encode())])
    assert sought(copy)
    assert not sought(record(b"\xff", number=2, offset=40, timestamp_ms=stamped(1)))
    assert not sought(record(b"\xfe", topic="notification-events-dlq", headers=copy.headers))


def test_a_record_that_the_router_had_to_cut_is_found() -> None:
    """It went to the DLQ without its value, but with its root."""
    assert Sought("n-1", TOPICS)(record(None, topic="notification-events-dlq", headers=[("root.id", b"n-1")]))
