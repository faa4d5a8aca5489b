import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Channel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHANNEL_UNSPECIFIED: _ClassVar[Channel]
    CHANNEL_FIREBASE: _ClassVar[Channel]
    CHANNEL_APNS: _ClassVar[Channel]
    CHANNEL_WEBHOOK: _ClassVar[Channel]
    CHANNEL_WEBPUSH: _ClassVar[Channel]
    CHANNEL_INAPP: _ClassVar[Channel]
    CHANNEL_EMAIL: _ClassVar[Channel]
    CHANNEL_NTFY: _ClassVar[Channel]

class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIORITY_UNSPECIFIED: _ClassVar[Priority]
    PRIORITY_NORMAL: _ClassVar[Priority]
    PRIORITY_HIGH: _ClassVar[Priority]
CHANNEL_UNSPECIFIED: Channel
CHANNEL_FIREBASE: Channel
CHANNEL_APNS: Channel
CHANNEL_WEBHOOK: Channel
CHANNEL_WEBPUSH: Channel
CHANNEL_INAPP: Channel
CHANNEL_EMAIL: Channel
CHANNEL_NTFY: Channel
PRIORITY_UNSPECIFIED: Priority
PRIORITY_NORMAL: Priority
PRIORITY_HIGH: Priority

class Notification(_message.Message):
    __slots__ = ("id", "user_id", "channel", "title", "body", "payload_json", "trace_id", "created_at", "target", "expires_at", "event_key", "collapse_key", "priority")
    ID_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_JSON_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    EVENT_KEY_FIELD_NUMBER: _ClassVar[int]
    COLLAPSE_KEY_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    id: str
    user_id: str
    channel: Channel
    title: str
    body: str
    payload_json: str
    trace_id: str
    created_at: _timestamp_pb2.Timestamp
    target: str
    expires_at: _timestamp_pb2.Timestamp
    event_key: str
    collapse_key: str
    priority: Priority
    def __init__(self, id: _Optional[str] = ..., user_id: _Optional[str] = ..., channel: _Optional[_Union[Channel, str]] = ..., title: _Optional[str] = ..., body: _Optional[str] = ..., payload_json: _Optional[str] = ..., trace_id: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., target: _Optional[str] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., event_key: _Optional[str] = ..., collapse_key: _Optional[str] = ..., priority: _Optional[_Union[Priority, str]] = ...) -> None: ...
