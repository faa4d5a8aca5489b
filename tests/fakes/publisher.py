"""A broker in memory, as a publisher sees it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from tests.fakes.faults import Faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.kafka.port import Headers, PublishFailed


class Published(NamedTuple):
    """One record that every replica has."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int

    def header(self, name: str) -> bytes | None:
        """The one header of that name, or None where there is none."""
        (value,) = [value for found, value in self.headers if found == name] or [None]
        return value


class MemoryPublisher:
    """Implements `Publisher`; reports come by `poll`, or by themselves where `in_loop`.

    `faults`: what the next publishes come to. `refuses`: what a publish to a topic comes to, as long as it is set.
    """

    def __init__(self, *, in_loop: bool = False) -> None:
        self.records: list[Published] = []
        self.calls = 0
        self.faults: Faults[PublishFailed] = Faults()
        self.refuses: Callable[[Published], PublishFailed | None] = lambda _: None
        self.stopped = False
        self._in_loop = in_loop
        self._reports: deque[tuple[Callable[[PublishFailed | None], None], Published, PublishFailed | None]] = deque()

    def publish(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        done: Callable[[PublishFailed | None], None],
        timestamp_ms: int = 0,
    ) -> None:
        """See `Publisher.publish`."""
        self.calls += 1
        record = Published(topic, key, value, list(headers), timestamp_ms)
        self._reports.append((done, record, self.faults.next() or self.refuses(record)))
        if self._in_loop:
            asyncio.get_running_loop().call_soon(self.poll, 0.0)

    def poll(self, timeout: float) -> int:  # noqa: ARG002 - the producer's signature
        """Deliver the reports that have come up to now."""
        served = len(self._reports)
        for _ in range(served):
            done, record, failure = self._reports.popleft()
            if failure is None:
                self.records.append(record)
            done(failure)
        return served

    def stop(self, timeout: float) -> int:  # noqa: ARG002 - the producer's signature
        """Flush and end."""
        self.stopped = True
        return len(self._reports)

    def to(self, topic: str) -> list[Published]:
        """What a topic holds."""
        return [record for record in self.records if record.topic == topic]
