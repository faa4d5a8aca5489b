"""Looks for records in whole topics, from the first that is there to the end that each has now, outside every group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ringonce.kafka.reader import BoundedReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ringonce.kafka.port import Record
    from ringonce.kafka.settings import ConsumerSettings

AT_ONCE: Final = 1000


def search(membership: ConsumerSettings, topics: Iterable[str], wanted: Callable[[Record], bool]) -> Iterator[Record]:
    """The records that are `wanted`, topic by topic; nothing is joined and nothing committed.

    Args:
        membership: how to reach the brokers; the group is only a name.
        topics: those that exist.
        wanted: is asked for each record that there is, so it should be quick.

    Raises:
        ServerUnreachable: the broker did not answer.
    """
    for topic in topics:
        with BoundedReader(membership, topic) as reader:
            reader.seek(reader.lows)
            while (batch := reader.next(AT_ONCE)) is not None:
                yield from filter(wanted, batch)
