"""A notification's canonical JSON is protobuf's own."""

from __future__ import annotations

import json

import orjson
import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from notifications.v1 import notifications_pb2
from ringonce.domain.notification import NANOS, Channel, Instant, Notification, Priority
from ringonce.kafka.codec import decode, encode

EARLIEST, LATEST = -62_135_596_800, 253_402_300_799
texts = st.text(max_size=30) | st.sampled_from(["", "\0", "😀", "\u2028", '"\\/', "\x7f", "{}", "ä"])  # no surrogates
int32 = st.integers(-(2**31), 2**31 - 1)
nanos = st.integers(0, NANOS - 1) | st.sampled_from([0, 1, 1000, 1_000_000, 999_999_999, 120_000_000])
instants = st.builds(Instant, st.integers(EARLIEST, LATEST) | st.sampled_from([EARLIEST, LATEST, 0, -1]), nanos)
notifications = st.builds(
    Notification,
    id=texts,
    user_id=texts,
    channel=st.integers(0, 8) | int32,
    title=texts,
    body=texts,
    payload_json=texts,
    trace_id=texts,
    created_at=st.none() | instants,
    target=texts,
    expires_at=st.none() | instants,
    event_key=texts,
    collapse_key=texts,
    priority=st.integers(0, 3) | int32,
)


@given(notifications)
def test_json_fields_are_protobufs(notification: Notification) -> None:
    """The same names, values and omissions as `google.protobuf.json_format` gives for the same bytes."""
    wire = notifications_pb2.Notification.FromString(encode(notification))
    assert json.loads(orjson.dumps(notification.json_fields())) == json.loads(json_format.MessageToJson(wire))


@given(notifications)
def test_json_fields_are_read_back_by_protobuf(notification: Notification) -> None:
    """A receiver with the contract reads what was meant."""
    wire = notifications_pb2.Notification()
    json_format.Parse(orjson.dumps(notification.json_fields()), wire)
    assert decode(wire.SerializeToString()) == notification


@given(notifications)
def test_encoding_and_decoding_is_the_identity(notification: Notification) -> None:
    """For every notification, unknown enum numbers included."""
    assert decode(encode(notification)) == notification


@pytest.mark.parametrize(("seconds", "nano"), [(EARLIEST - 1, 0), (LATEST + 1, 0), (0, -1), (0, NANOS)])
def test_an_instant_out_of_range_is_refused(seconds: int, nano: int) -> None:
    """The bounds are those of google.protobuf.Timestamp."""
    with pytest.raises(ValueError, match="out of range"):
        Instant(seconds, nano)


def test_an_instants_epoch_is_in_seconds() -> None:
    """With its fraction."""
    assert Instant(10, 500_000_000).epoch() == 10.5


def test_enums_are_the_contracts() -> None:
    """The domain's own copies name every value that the generated ones have."""
    assert {channel.wire_name: int(channel) for channel in Channel} == dict(notifications_pb2.Channel.items())
    assert {priority.wire_name: int(priority) for priority in Priority} == dict(notifications_pb2.Priority.items())
