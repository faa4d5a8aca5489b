"""A polled record, opened; and its row."""

from __future__ import annotations

import pytest
from tests.fakes.clock import EPOCH
from tests.fakes.samples import expiring, notification, record, work

from ringonce.domain.disposition import Status
from ringonce.domain.identity import Identity
from ringonce.domain.notification import Channel, Instant
from ringonce.domain.outcome import Refused, Rejected
from ringonce.kafka import headers as names
from ringonce.runtime.envelope import open_record
from ringonce.store.port import HistoryRow


def test_a_good_record_is_itself() -> None:
    """Its origin is where it lies, unless a header says more."""
    envelope = open_record(record(expiring(5), offset=3), Channel.FIREBASE, EPOCH)
    assert envelope.identity == Identity("n-1", "n-1", 0, "n-1")
    assert envelope.fault is None
    assert envelope.expires_at == EPOCH + 5
    assert str(envelope.origin) == "notification-firebase/0/3/1700000000000"
    moved = record(notification(), headers=[(names.ORIGIN, b"notification-events/1/2/3")])
    assert str(open_record(moved, Channel.FIREBASE, EPOCH).origin) == "notification-events/1/2/3"


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (None, "tombstone: the record has no value"),
        (b"\xff", "the value is not a notifications.v1.Notification"),
        (notification(""), "the id is not 1 to 200 visible ASCII characters, or begins like a replay's"),
        (notification("x" * 3000), "the id is not 1 to 200 visible ASCII characters, or begins like a replay's"),
        (notification("replay-1-n"), "the id is not 1 to 200 visible ASCII characters, or begins like a replay's"),
        (notification(channel=Channel.APNS), "the payload's channel 2 is not its topic's"),
        (notification(channel=99), "the payload's channel 99 is not its topic's"),
    ],
)
def test_a_faulty_record_has_a_synthetic_id(value: bytes | None, fault: str) -> None:
    """So that it too gets exactly one row; made of its origin, it is the same wherever the record lies."""
    envelope = open_record(record(value, offset=3), Channel.FIREBASE, EPOCH)
    assert envelope.fault == fault
    assert envelope.identity.id.startswith("notification-firebase/0/3/1700000000000-")
    assert envelope.identity == Identity(*(envelope.identity.id,) * 2, 0, envelope.identity.id)
    in_dlq = record(value, topic="notification-firebase-dlq", headers=[(names.ORIGIN, str(envelope.origin).encode())])
    assert open_record(in_dlq, Channel.FIREBASE, EPOCH).identity == envelope.identity


def test_the_routers_dlq_has_no_channel() -> None:
    """A record there with a valid id keeps it, whatever its channel."""
    envelope = open_record(record(notification(channel=99)), None, EPOCH)
    assert (envelope.identity.id, envelope.fault) == ("n-1", None)


def test_a_value_that_was_left_behind_is_remembered_by_its_root() -> None:
    """The router wrote it down; beside a value, or where it is no id, that is not believed."""
    left = record(None, headers=[(names.ROOT_ID, b"n-7")])
    assert open_record(left, None, EPOCH).identity.id == "n-7"
    assert open_record(record(b"\xff", headers=[(names.ROOT_ID, b"n-7")]), None, EPOCH).identity.id != "n-7"
    assert open_record(record(None, headers=[(names.ROOT_ID, b"a b")]), None, EPOCH).identity.id != "a b"


def test_row_of_a_notification() -> None:
    """What it says, what became of it, and where."""
    created = Instant(int(EPOCH), 120_000_000)
    one = work(
        expiring(5, "n-1", user_id="u", trace_id="t", event_key="e", created_at=created),
        stage="retry-30s",
        headers=[(names.ATTEMPTS, b"3"), (names.MAYBE_REACHED, b"true")],
    )
    one.attempts += 1
    one.outcome = Refused(503)
    assert one.row("firebase", Status.EXPIRED, "error", sent_at=1.5) == HistoryRow(
        notification_id="n-1",
        channel="firebase",
        status=Status.EXPIRED,
        root_id="n-1",
        attempts=4,
        user_id="u",
        last_error="error",
        sent_at=1.5,
        http_status=503,
        stage="retry-30s",
        trace_id="t",
        event_key="e",
        replay_of=None,
        maybe_reached=True,
        created_at="2023-11-14T22:13:20.120Z",
        expires_at="2023-11-14T22:13:25Z",
    )


def test_times_in_a_row_are_cut_to_microseconds() -> None:
    """PostgreSQL would round, and the year 10000 is one that many a client cannot read."""
    last = Instant(253_402_300_799, 999_999_999)
    row = work(notification(created_at=last, expires_at=last)).row("firebase", Status.DLQ, None)
    assert row.created_at == row.expires_at == "9999-12-31T23:59:59.999999Z"


def test_row_of_a_replay_names_its_root() -> None:
    """Its own id, its root, and that it is one."""
    headers = [(names.NOTIFICATION_ID, b"replay-2-n-1"), (names.REPLAY_OF, b"n-1"), (names.REPLAY_COUNT, b"2")]
    row = work(headers=[*headers]).row("firebase", Status.DELIVERED, None)
    assert (row.notification_id, row.root_id, row.replay_of) == ("replay-2-n-1", "n-1", "n-1")


def test_row_of_what_cannot_be_decoded() -> None:
    """Under its synthetic id, with what its headers tell."""
    one = work(b"\xff", headers=[(names.ATTEMPTS, b"3"), (names.MAYBE_REACHED, b"true")])
    row = one.row("firebase", Status.DLQ, "broken")
    assert (row.status, row.attempts, row.last_error, row.maybe_reached) == (Status.DLQ, 3, "broken", True)
    assert row.root_id == row.notification_id == one.envelope.identity.id


def test_row_without_a_call_of_ours_has_the_status_that_the_header_tells() -> None:
    """A recorder makes no calls; an outcome of ours without a status has none."""
    one = work(headers=[(names.ERROR_STATUS, b"410")])
    assert one.row("firebase", Status.DLQ, None).http_status == 410
    one.outcome = Rejected("x")
    assert one.row("firebase", Status.DLQ, None).http_status is None


def test_what_was_learned_here_is_what_no_header_says_yet() -> None:
    """That must not be forgotten when a record is given up."""
    one, known = work(), work(headers=[(names.MAYBE_REACHED, b"true")])
    assert (one.learned, known.learned, known.maybe_reached) == (False, False, True)
    one.maybe_reached = True
    assert one.learned
