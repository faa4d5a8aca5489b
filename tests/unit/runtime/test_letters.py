"""What a dead letter says of itself."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.clock import EPOCH
from tests.fakes.letters import dead, letter
from tests.fakes.samples import expiring, record

from ringonce.runtime.letters import open_letter


def test_a_letter() -> None:
    """From its headers and its content."""
    one = letter(expiring(5, user_id="u", event_key="e"), replay=2, error_message="m", maybe_reached="true", offset=7)
    assert (one.id, one.root, one.replay) == ("replay-2-n-1", "n-1", 2)
    assert (one.user, one.event_key, one.error) == ("u", "e", "m")
    assert (one.error_class, one.reason, one.status) == ("Refused", "exhausted", 503)
    assert (one.died_at, one.expires_at, one.maybe_reached) == (EPOCH, EPOCH + 5, True)
    assert one.standing == (2, 0, 7)


def test_what_cannot_be_decoded_says_why() -> None:
    one = letter(b"\xff")
    assert one.notification is None
    assert one.error == one.fault == "the value is not a notifications.v1.Notification"
    assert (one.user, one.event_key, one.expires_at) == ("", "", None)


@pytest.mark.parametrize("text", ["soon", "-1", "9" * 16, ""])
def test_a_letter_whose_headers_do_not_say_when_it_died_died_at_its_records_time(text: str) -> None:
    """Headers from outside are hints."""
    timed = dead(error_timestamp=text)._replace(timestamp_ms=5000)
    assert open_letter(timed, None, EPOCH).died_at == 5


def test_a_letter_without_headers() -> None:
    """Empty, and no reason to fail; not even a time."""
    one = open_letter(record(b"\xff", headers=[], timestamp_ms=-1), None, EPOCH)
    assert (one.error_class, one.reason, one.status, one.died_at, one.maybe_reached) == ("", "", None, 0, False)
    odd: Any = [("error.class", None), ("error.timestamp", None)]
    assert open_letter(record(b"\xff", headers=odd), None, EPOCH).error_class == ""
