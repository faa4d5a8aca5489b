"""From a status code to an outcome."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringonce.domain.classify import LONGEST_RETRY_AFTER, RELAY, Protocol, classify_status, read_retry_after
from ringonce.domain.outcome import Delivered, Gone, Refused, Rejected, Throttled, retry_after

NOW = 1_700_000_000.0
UNKEYED = Protocol("unkeyed", keyed=False, addresses_die=False)
MORTAL = Protocol("mortal", keyed=True, addresses_die=True)


def expected(protocol: Protocol, status: int) -> type:
    """The table of DESIGN.md, written once more."""
    if status in range(200, 300):
        return Delivered
    if status == 429:
        return Throttled
    if status == 408 or status in range(500, 600) or (status == 409 and protocol.keyed):
        return Refused
    return Gone if status in {404, 410} and protocol.addresses_die else Rejected


@pytest.mark.parametrize("protocol", [RELAY, UNKEYED, MORTAL], ids=lambda protocol: protocol.name)
def test_every_status_code(protocol: Protocol) -> None:
    """100 to 999, for each kind of protocol."""
    for status in range(100, 1000):
        outcome = classify_status(protocol, status, {"retry-after": "7"}, NOW)
        assert type(outcome) is expected(protocol, status), status
        assert getattr(outcome, "status", status) == status
        assert retry_after(outcome) == (7 if isinstance(outcome, Throttled | Refused) else None)


def test_relay_knows_no_dead_addresses() -> None:
    """Its 404 and 410 are rejections: the record goes to the DLQ, no address is retired."""
    assert isinstance(classify_status(RELAY, 410, {}, NOW), Rejected)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("0", 0),
        ("120", 120),
        (" 120 ", 120),
        ("9" * 400, LONGEST_RETRY_AFTER),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30),  # 30 s after NOW
        ("Tuesday, 14-Nov-23 22:13:50 GMT", 30),
        ("Tue Nov 14 22:13:50 2023", 30),
        ("Tue, 14 Nov 2023 22:13:50 -0000", 30),
        ("Tue, 14 Nov 2023 22:13:10 GMT", 0),  # past
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_RETRY_AFTER),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("1e3", None),
        ("+5", None),
        ("٣", None),
        ("²", None),
        ("soon", None),
        ("Tue, 99 Nov 2023 22:13:50 GMT", None),
        ("Mon, 01 Jan 99999 00:00:00 GMT", None),
        ("Mon, 01 Jan 2024 00:00:00 +99999999999999999999", None),
        ("Mon, 01 Jan 0001 00:00:00 +2300", 0),
    ],
)
def test_forms_of_retry_after(text: str | None, seconds: float | None) -> None:
    """Seconds, the three forms of an HTTP date, and garbage, which counts as nothing."""
    assert read_retry_after(text, NOW) == seconds


@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, [0-9]{1,3} [A-Z][a-z]{2} [0-9]{1,6} [0-9:]{1,9} [+-]?[0-9A-Z]{1,30}"))
def test_no_text_is_an_error(text: str) -> None:
    """Whatever a provider sends, reading it never fails and the wait is bounded."""
    seconds = read_retry_after(text, NOW)
    assert seconds is None or 0 <= seconds <= LONGEST_RETRY_AFTER


@given(st.integers(0, 6 * 86_400))
def test_a_date_is_the_time_until_then(ahead: int) -> None:
    """By our clock, to the second."""
    moment = datetime.fromtimestamp(NOW, UTC) + timedelta(seconds=ahead)
    assert read_retry_after(format_datetime(moment, usegmt=True), NOW) == ahead
