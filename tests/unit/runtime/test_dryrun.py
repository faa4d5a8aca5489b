"""What a sender would do, without doing it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.clock import EPOCH, FakeClock
from tests.fakes.samples import WEBHOOK, expiring, notification, record, relay

from ringonce.domain.notification import Channel
from ringonce.runtime.dryrun import DryRun
from ringonce.runtime.envelope import open_record


def plan(value: Any, headers: Any = ()) -> str:
    """For a record of webhook's."""
    shown: list[str] = []
    dry_run = DryRun(WEBHOOK, {}, relay(WEBHOOK), FakeClock(), shown.append)
    planned = dry_run.plan(open_record(record(value, headers=[*headers]), Channel.WEBHOOK, EPOCH))
    assert shown == []
    return planned


HOOK = Channel.WEBHOOK


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (notification(channel=HOOK), "send, Idempotency-Key n-1"),
        (expiring(1, channel=HOOK), "send, Idempotency-Key n-1"),
        (expiring(0, channel=HOOK), "expired"),
        (notification(channel=Channel.APNS), "dlq, the payload's channel 2 is not its topic's"),
        (b"\xff", "dlq, the value is not a notifications.v1.Notification"),
        (None, "dlq, tombstone: the record has no value"),
        (notification(channel=HOOK, target="CANARY"), "dlq, the target is not an absolute http or https URL"),
        (notification(channel=HOOK, target="http://CANARY/"), "dlq, the target's host is not on the allow-list"),
    ],
)
def test_plan(value: Any, expected: str) -> None:
    """As the sender would decide, without target and payload."""
    assert plan(value) == expected


def test_a_replays_key_is_its_roots() -> None:
    """As it would be sent."""
    headers = [("notification.id", b"replay-1-n-1"), ("replay.of", b"n-1"), ("replay.count", b"1")]
    assert plan(notification(channel=HOOK), headers) == "send, Idempotency-Key n-1"


def test_a_dry_run_commits_nothing() -> None:
    """Whatever it is asked."""
    assert DryRun(WEBHOOK, {}, relay(WEBHOOK), FakeClock(), print).revoked([]) == {}
