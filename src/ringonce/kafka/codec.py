"""The wire contract's bytes to a `Notification`: the only place that knows the generated module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from notifications.v1 import notifications_pb2
from ringonce.domain.notification import Instant, Notification

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp


class Undecodable(ValueError):  # noqa: N818 - what the value is
    """The value is not a Notification; the message says why, without any of its content."""


def decode(value: bytes | None) -> Notification:
    """Read a record's value.

    Raises:
        Undecodable: a tombstone, no protobuf, or a timestamp outside the range that protobuf allows.
    """
    if value is None:
        raise Undecodable("tombstone: the record has no value")
    try:
        wire = notifications_pb2.Notification.FromString(value)
    except (DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Undecodable("the value is not a notifications.v1.Notification") from error
    try:
        created_at = _instant(wire.created_at) if wire.HasField("created_at") else None
        expires_at = _instant(wire.expires_at) if wire.HasField("expires_at") else None
    except ValueError as error:
        raise Undecodable("created_at or expires_at is out of range") from error
    return Notification(
        wire.id,
        wire.user_id,
        wire.channel,
        wire.title,
        wire.body,
        wire.payload_json,
        wire.trace_id,
        created_at,
        wire.target,
        expires_at,
        wire.event_key,
        wire.collapse_key,
        wire.priority,
    )


def decode_channel(value: bytes | None) -> int:
    """Only the channel's number, for the router.

    Raises:
        Undecodable: a tombstone, or no protobuf.
    """
    if value is None:
        raise Undecodable("tombstone: the record has no value")
    try:
        return int(notifications_pb2.Notification.FromString(value).channel)
    except (DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Undecodable("the value is not a notifications.v1.Notification") from error


def with_channel(value: bytes, channel: int) -> bytes:
    """The wire bytes of the same notification for `channel`: the one repair that replay offers.

    The field is put behind what is there, byte for byte, fields unknown to us included: of several the last one counts.
    """
    wire = notifications_pb2.Notification()
    wire.channel = channel  # type: ignore[assignment]
    return value + wire.SerializeToString()


def encode(notification: Notification) -> bytes:
    """The wire bytes of a new notification: for producers of ours (seed, tests, benchmarks), never for a forward."""
    wire = notifications_pb2.Notification(
        id=notification.id,
        user_id=notification.user_id,
        title=notification.title,
        body=notification.body,
        payload_json=notification.payload_json,
        trace_id=notification.trace_id,
        target=notification.target,
        event_key=notification.event_key,
        collapse_key=notification.collapse_key,
    )
    # Open enums: numbers that the generated enum does not know are legal on the wire.
    wire.channel = notification.channel  # type: ignore[assignment]
    wire.priority = notification.priority  # type: ignore[assignment]
    for field, instant in ((wire.created_at, notification.created_at), (wire.expires_at, notification.expires_at)):
        if instant is not None:
            field.seconds, field.nanos = instant.seconds, instant.nanos
            field.SetInParent()
    return wire.SerializeToString()


def _instant(wire: Timestamp) -> Instant:
    return Instant(wire.seconds, wire.nanos)
