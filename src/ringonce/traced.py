"""Puts spans around what a process does: publishing, calling a provider, recording. The core does not know of it.

All of a notification's spans have the record's `traceparent` as parent; it passes through everything unchanged, and a
record that comes without one gets it from the first of its publishes that is traced. The provider is given the call's
own span. What is recorded together has one more span, linked both ways.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from ringonce.domain.outcome import Delivered, http_status
from ringonce.observe.tracing import HEADER, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.channels.port import Carrier, Prepared
    from ringonce.domain.notification import Notification
    from ringonce.domain.outcome import Outcome
    from ringonce.kafka.port import Headers
    from ringonce.kafka.producer import Told
    from ringonce.observe.tracing import Tracing
    from ringonce.runtime.clock import Clock
    from ringonce.runtime.recorder import Recorder
    from ringonce.runtime.work import Work
    from ringonce.store.port import HistoryRow

CHANNEL: Final = "ringonce.channel"
ID: Final = "ringonce.notification.id"


def publishing(tracing: Tracing) -> Callable[[str, Headers], tuple[Headers, Told]]:
    """What a producer is given as `traced`: a span for each record, from handing over to its acknowledgement."""

    def begin(topic: str, headers: Headers) -> tuple[Headers, Told]:
        parent = _parent(headers)
        attributes = {
            "messaging.system": "kafka",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": topic,
        }
        span = tracing.begin(f"send {topic}", Kind.PRODUCER, parent, attributes)
        if parent is None:
            headers = [*(header for header in headers if header[0] != HEADER), (HEADER, span.traceparent.encode())]
        return headers, span.end

    return begin


def _parent(headers: Headers) -> str | None:
    """The record's traceparent, if it has one that can be read."""
    found = next((value for name, value in reversed(headers) if name == HEADER), None)
    return found.decode("ascii", "replace") if found else None


class TracedCarrier:
    """Implements `Carrier` around another one: a span for each call, which the provider gets to know."""

    def __init__(self, carrier: Carrier, tracing: Tracing, channel: str) -> None:
        self.destination = carrier.destination
        self._carrier = carrier
        self._tracing = tracing
        self._channel = channel

    def prepare(self, notification: Notification, key: str, traceparent: str | None, payload: bytes) -> Prepared:
        """See `Carrier.prepare`."""
        self._carrier.prepare(notification, key, traceparent, payload)  # what can never be sent is known now
        return partial(self._call, notification, key, traceparent, payload)

    async def _call(
        self, notification: Notification, key: str, traceparent: str | None, payload: bytes, deadline: float
    ) -> Outcome:
        attributes = {CHANNEL: self._channel, ID: key}
        span = self._tracing.begin(f"deliver {self._channel}", Kind.CLIENT, traceparent, attributes)
        call = self._carrier.prepare(notification, key, span.traceparent, payload)
        try:
            outcome = await call(deadline)
        except asyncio.CancelledError:
            span.end("cancelled")
            raise
        status = http_status(outcome)
        answered = {} if status is None else {"http.response.status_code": status}
        span.end(None if isinstance(outcome, Delivered) else type(outcome).__name__, answered)
        return outcome

    async def close(self) -> None:
        """See `Carrier.close`."""
        await self._carrier.close()


def trace_rows(recorder: Recorder, tracing: Tracing, channel: str, clock: Clock) -> None:
    """Have a span for each terminal row, from the provider's yes to the durable row, and one for each batch."""
    before = recorder.written

    def written(batch: list[tuple[HistoryRow, Work]]) -> None:
        if before is not None:
            before(batch)
        now = clock.now()
        parents = [work.envelope.hints.traceparent for _, work in batch]
        began = min((row.sent_at for row, _ in batch if row.sent_at is not None), default=now)
        attributes: dict[str, str | int] = {CHANNEL: channel, "db.system.name": "postgresql"}
        attributes["db.operation.batch.size"] = len(batch)
        links = [parent for parent in parents if parent is not None]
        whole = tracing.begin("record", Kind.CLIENT, None, attributes, at=began, links=links)
        for (row, _), parent in zip(batch, parents, strict=True):
            described = {CHANNEL: channel, ID: row.notification_id, "ringonce.status": row.status.value}
            at = now if row.sent_at is None else row.sent_at
            one = tracing.begin("record row", Kind.INTERNAL, parent, described, at=at, links=[whole.traceparent])
            one.end(at=now)
        whole.end(at=now)

    recorder.written = written
