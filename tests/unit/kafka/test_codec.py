"""The wire's bytes, and what is no notification."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from notifications.v1 import notifications_pb2
from ringonce.domain.notification import Channel, Notification
from ringonce.kafka.codec import Undecodable, decode, decode_channel, encode, with_channel

WHOLE = encode(Notification("n-1", "user", 1, "title", "body", "{}"))
CREATED_AT = 8


def with_timestamp(seconds: int, nanos: int) -> bytes:
    """A notification created at some time, possible or not."""
    wire = notifications_pb2.Notification(id="n-1", channel=notifications_pb2.CHANNEL_APNS)
    wire.created_at.seconds, wire.created_at.nanos = seconds, nanos
    return wire.SerializeToString()


@pytest.mark.parametrize(
    "value",
    [
        None,
        WHOLE[:-1],
        WHOLE[: len(WHOLE) // 2],
        b"\xff\xff\xff\xff",
        b"\x0a\x05abc",
        b"\x0a\x02\xc3\x28",  # the id is no UTF-8
        b"\x0a\x03\xed\xa0\x80",  # a lone surrogate, encoded
        b"\x0b" * 10_000,  # groups in groups in groups
        b"\x0b" * 10_000 + b"\x0c" * 10_000,
        b"\x00",
        b"not protobuf at all",
    ],
)
def test_what_is_no_notification_is_refused(value: bytes | None) -> None:
    """Tombstone, random, cut off, deeply nested, invalid UTF-8; both readers agree, and quote nothing of it."""
    with pytest.raises(Undecodable) as caught:
        decode(value)
    assert str(caught.value) in {
        "tombstone: the record has no value",
        "the value is not a notifications.v1.Notification",
    }
    with pytest.raises(Undecodable):
        decode_channel(value)


@pytest.mark.parametrize("stamp", [(-62_135_596_801, 0), (253_402_300_800, 0), (0, -1), (0, 10**9), (2**62, 0)])
def test_a_timestamp_out_of_range_is_the_senders_to_refuse(stamp: tuple[int, int]) -> None:
    """The router still knows the channel; the sender refuses it there, so that it gets its row in that channel."""
    value = with_timestamp(*stamp)
    with pytest.raises(Undecodable, match="out of range"):
        decode(value)
    assert decode_channel(value) == 2


@given(st.binary(max_size=200))
@example(b"")
def test_any_bytes_are_a_notification_or_undecodable(value: bytes) -> None:
    """Nothing else comes out of random bytes, whoever reads them; where one reads a channel so does the other."""
    try:
        decoded = decode(value)
    except Undecodable:
        return
    assert decode_channel(value) == decoded.channel


@given(st.binary(min_size=1, max_size=4), st.integers(0, len(WHOLE) - 1))
def test_damaged_bytes_are_a_notification_or_undecodable(damage: bytes, where: int) -> None:
    """The same for a notification that was damaged on its way."""
    try:
        decode(WHOLE[:where] + damage + WHOLE[where + len(damage) :])
    except Undecodable:
        return


def test_unknown_fields_and_enum_numbers_are_no_fault() -> None:
    """A newer producer may send more than we know."""
    value = WHOLE + b"\xa0\x06\x01" + b"\x18\x63"  # field 100, and channel = 99, the last one counts
    assert decode(value).channel == decode_channel(value) == 99


def test_an_empty_value_is_an_empty_notification() -> None:
    """Not a tombstone: that is no value at all."""
    assert decode(b"") == Notification("")


@pytest.mark.parametrize("before", [Channel.UNSPECIFIED, Channel.APNS])
def test_a_channel_is_put_behind_what_is_there(before: Channel) -> None:
    """The bytes before it stay, those of fields that nobody knows included; of two channels the last one counts."""
    notification = Notification("n-1", "user-1", before, "Title")
    value = encode(notification) + b"\xf2\x3f\x03abc"
    changed = with_channel(value, Channel.WEBHOOK)
    assert changed.startswith(value)
    assert decode(changed) == notification._replace(channel=Channel.WEBHOOK)
