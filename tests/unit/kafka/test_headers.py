"""Headers from outside are hints, and ours are replaced, never appended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringonce.domain.identity import MAX_REPLAYS, Origin, ReplayClaim
from ringonce.domain.notification import Channel
from ringonce.kafka import headers as names
from ringonce.kafka.headers import Entered, Hints, millis, one_line, read, replace
from ringonce.kafka.port import Partition, Record

NOW = 1_700_000_000.0
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NUMBER = 1_600_000_000_000

some_headers = st.lists(
    st.tuples(
        st.sampled_from([*sorted(names.RESERVED), names.TRACEPARENT, "x-foreign", "", "Origin"]),
        st.none() | st.binary(max_size=20) | st.sampled_from([b"1", b"-1", b"true", TRACE.encode()]),
    ),
    max_size=12,
)


def one(name: str, value: bytes | None) -> Hints:
    """What one header is worth."""
    return read([(name, value)], NOW)


@pytest.mark.parametrize("name", sorted(names.RESERVED))
@pytest.mark.parametrize("value", [None, b"\xff\xfe", b"", b"\xed\xa0\x80"])
def test_unreadable_values_count_as_absent(name: str, value: bytes | None) -> None:
    """None, and what is no UTF-8; an empty text says nothing either, where a number or an origin should be."""
    texts = {names.ERROR_MESSAGE, names.FORWARD_REASON, names.ORIGINAL_TOPIC, names.ROOT_ID, names.NOTIFICATION_ID}
    if value == b"" and name in texts:
        return
    assert one(name, value) == Hints()


@pytest.mark.parametrize("name", [names.RETRY_COUNT, names.ATTEMPTS])
@pytest.mark.parametrize(
    ("text", "count"),
    [
        *(("0", 0), ("7", 7), ("007", 7), ("1000000", 10**6), ("1000001", 0), ("9" * 18, 0), ("9" * 5000, 0)),
        *(("-1", 0), ("+1", 0), ("1.0", 0), ("1e3", 0), (" 1", 0), ("1_000", 0), ("0x1", 0), ("many", 0)),
        *(("٣", 0), ("²", 0)),
    ],
)
def test_counts(name: str, text: str, count: int) -> None:
    """Digits up to a million, or nothing."""
    hints = one(name, text.encode())
    assert (hints.retry_count if name == names.RETRY_COUNT else hints.attempts) == count


@pytest.mark.parametrize(
    ("text", "since"),
    [
        (str(NUMBER), NUMBER / 1000),
        (millis(NOW), NOW),
        (millis(NOW + 1), None),  # from the future
        ("-5", None),
        ("9" * 18, None),
        ("9" * 19, None),
        ("soon", None),
    ],
)
def test_deferred_since_lies_in_the_past(text: str, since: float | None) -> None:
    """A date from outside that would put a record off for ever is not believed."""
    assert one(names.DEFERRED_SINCE, text.encode()).deferred_since == since


@pytest.mark.parametrize(("text", "is_so"), [("true", True), ("True", False), ("1", False), ("false", False)])
def test_maybe_reached_is_one_word(text: str, is_so: bool) -> None:  # noqa: FBT001 - a table's column
    """Only as we write it."""
    assert one(names.MAYBE_REACHED, text.encode()).maybe_reached is is_so


@pytest.mark.parametrize(
    ("text", "believed"),
    [
        (TRACE, True),
        (TRACE.upper(), False),
        ("ff" + TRACE[2:], False),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", False),
        (f"{TRACE[:36]}{'0' * 16}-01", False),
        (TRACE[:-1], False),
        (TRACE + "-more", False),
        (TRACE + "\r\nx: y", False),
        (TRACE + "\n", False),
        ("", False),
    ],
)
def test_traceparent_is_passed_on_to_the_provider_only_in_its_form(text: str, believed: bool) -> None:  # noqa: FBT001
    """It becomes a header of a call: nothing else may get in that way."""
    assert one(names.TRACEPARENT, text.encode()).traceparent == (text if believed else None)


@pytest.mark.parametrize(
    ("text", "status"), [("503", 503), ("100", 100), ("999", 999), ("99", None), ("1000", None), ("x", None)]
)
def test_error_status_has_three_digits(text: str, status: int | None) -> None:
    """Or is none."""
    assert one(names.ERROR_STATUS, text.encode()).error_status == status


def test_origin() -> None:
    """Read in the form in which it is written, else ignored."""
    origin = Origin("t", 3, 14, 15)
    assert one(names.ORIGIN, str(origin).encode()).origin == origin
    assert one(names.ORIGIN, b"t/3").origin is None


@pytest.mark.parametrize(
    ("count", "believed"), [("1", 1), (str(MAX_REPLAYS), MAX_REPLAYS), (str(MAX_REPLAYS + 1), None), ("-1", None)]
)
def test_a_replays_claim(count: str, believed: int | None) -> None:
    """Its parts as they stand; without `notification.id` there is none."""
    claim = [
        (names.NOTIFICATION_ID, b"replay-1-n"),
        (names.REPLAY_OF, b"n"),
        (names.REPLAY_COUNT, count.encode()),
        (names.IDEMPOTENCY_KEY, b"k"),
    ]
    assert read([*claim], NOW).claim == ReplayClaim("replay-1-n", "n", believed, "k")
    assert read([*claim[1:]], NOW).claim == ReplayClaim()


def test_long_texts_are_cut() -> None:
    """They end up in rows."""
    assert one(names.ERROR_MESSAGE, b"x" * 10_000).error == "x" * 500
    assert one(names.FORWARD_REASON, b"x" * 10_000).reason == "x" * 500


def test_of_several_the_last_counts() -> None:
    """As a map of headers would have it."""
    assert read([(names.ATTEMPTS, b"1"), (names.ATTEMPTS, b"2")], NOW).attempts == 2


@given(some_headers)
def test_reading_never_fails_and_stays_in_bounds(headers: list[tuple[str, bytes | None]]) -> None:
    """Whatever comes."""
    hints = read(headers, NOW)
    assert 0 <= hints.attempts <= names.MAX_COUNT
    assert 0 <= hints.retry_count <= names.MAX_COUNT
    assert hints.deferred_since is None or 0 <= hints.deferred_since <= NOW


@given(some_headers, st.dictionaries(st.sampled_from(sorted(names.RESERVED)), st.none() | st.text(max_size=9)))
def test_replace_never_appends(headers: list[tuple[str, bytes | None]], changes: dict[str, str | None]) -> None:
    """Afterwards each changed name is there once, or not at all; everything else is as it was, in its order."""
    replaced = replace(headers, changes)
    for name, text in changes.items():
        assert [value for found, value in replaced if found == name] == ([] if text is None else [text.encode()])
    kept = [(name, value) for name, value in headers if name not in changes]
    assert replaced[: len(kept)] == kept


@given(some_headers)
def test_entering_strips_exactly_our_names(headers: list[tuple[str, bytes | None]]) -> None:
    """Foreign headers and traceparent stay in their order, duplicates and None included; then come our three."""
    foreign = [(name, value) for name, value in headers if name not in names.RESERVED]
    record = Record(Partition("t", 0), 1, 2, None, None, headers)
    assert Entered("node")(record, Channel.APNS) == [
        *foreign,
        (names.ORIGIN, b"t/0/1/2"),
        (names.CHANNEL, b"CHANNEL_APNS"),
        (names.ROUTER_NODE, b"node"),
    ]


def test_our_names_are_those_of_the_design() -> None:
    """The headers by which the fleet steers; `traceparent` is not among what is taken away."""
    design = {
        *("router-node", "channel", "origin", "retry.count", "attempts", "deferred.since", "error.class"),
        *("error.message", "error.timestamp", "original.topic", "previous.topic", "forward.reason", "maybe.reached"),
        *("notification.id", "replay.of", "replay.count", "idempotency.key", "root.id"),
    }
    assert design <= names.RESERVED
    assert "traceparent" not in names.RESERVED


@given(st.text(alphabet=st.characters()), st.integers(0, 600))
def test_error_texts_are_one_bounded_encodable_line(text: str, times: int) -> None:
    """Lone surrogates included."""
    line = one_line(text * times)
    assert len(line) <= names.LONGEST_MESSAGE
    assert len(line.splitlines()) <= 1
    assert line.encode().decode() == line
    assert one_line("a\r\nb\tc  d") == "a b c d"
