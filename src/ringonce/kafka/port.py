"""Records, partitions and publishing, without any library's types."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Headers: TypeAlias = list[tuple[str, bytes | None]]
Offsets: TypeAlias = "dict[Partition, int]"


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


def by_topic(partitions: Iterable[Partition]) -> tuple[str, ...]:
    """Partitions for a person: ``notification-apns[0,1,2]``, one entry per topic."""
    numbers: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        numbers.setdefault(partition.topic, []).append(partition.number)
    return tuple(f"{topic}[{','.join(map(str, found))}]" for topic, found in numbers.items())


class Record(NamedTuple):
    """One record as it was polled.

    `timestamp_ms`: milliseconds since the epoch, -1 where there is none. `headers` is as it came, in order.
    """

    partition: Partition
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.key or b"") + len(self.value or b"")


class PublishFailed(Exception):  # noqa: N818 - names what happened; the kinds below say what it means
    """A publish came to nothing, or may have; `detail` is the broker's or the library's word for it."""

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(detail)


class Unpublishable(PublishFailed):
    """It can never succeed: too large, or invalid in itself."""


class PublishUncertain(PublishFailed):
    """It was not acknowledged: its fate is unknown, or the broker will not have it now. To be repeated."""


class Publisher(Protocol):
    """Publishes with acks=all."""

    def publish(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        done: Callable[[PublishFailed | None], None],
        timestamp_ms: int = 0,
    ) -> None:
        """Hand over one record; `done` is called once, with None when every in-sync replica has it.

        `timestamp_ms` 0 means now. Never raises: what goes wrong at once is told to `done` too.
        """
        ...
