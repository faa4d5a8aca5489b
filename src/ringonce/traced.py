"""Puts spans around what a process does: publishing, calling a provider, recording. The core does not know of it.

All of a notification's spans have the record's `traceparent` as parent; it passes through everything unchanged, and a
record that comes without one that can be read gets it from the first of its publishes that is traced. The provider is
given the call's own span. What is recorded together has one more span, linked both ways.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from ringonce.channels.registry import Destinations
from ringonce.domain.classify import SMTP
from ringonce.domain.outcome import Delivered, http_status
from ringonce.kafka.headers import TRACEPARENT, read
from ringonce.observe.tracing import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.channels.port import Carrier, Prepared
    from ringonce.channels.registry import ChannelRow
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
        parent = read(headers, 0.0).traceparent
        attributes = {
            "messaging.system": "kafka",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": topic,
        }
        span = tracing.begin(f"send {topic}", Kind.PRODUCER, parent, attributes)
        if parent is None and span.traceparent is not None:
            kept = [header for header in headers if header[0] != TRACEPARENT]
            headers = [*kept, (TRACEPARENT, span.traceparent.encode())]
        return headers, span.end

    return begin


class TracedCarrier:
    """Implements `Carrier` around another one: a span for each call, which the provider gets to know.

    `place`: host and port of the channel's own target.
    """

    def __init__(self, carrier: Carrier, tracing: Tracing, row: ChannelRow, place: tuple[str, int]) -> None:
        self.destination = carrier.destination
        self._carrier = carrier
        self._tracing = tracing
        self._name = f"deliver {row.name}"
        self._per_host = row.destinations is Destinations.PER_HOST
        self._attributes: dict[str, str | int] = {CHANNEL: row.name, **_server(*place)}
        self._answered = "ringonce.smtp.reply_code"  # OpenTelemetry has no word for it
        if row.protocol != SMTP:
            self._attributes["http.request.method"] = "POST"
            self._answered = "http.response.status_code"

    def prepare(self, notification: Notification, key: str, traceparent: str | None, payload: bytes) -> Prepared:
        """See `Carrier.prepare`."""
        self._carrier.prepare(notification, key, traceparent, payload)  # what can never be sent is known now
        return partial(self._call, notification, key, traceparent, payload)

    async def _call(
        self, notification: Notification, key: str, traceparent: str | None, payload: bytes, deadline: float
    ) -> Outcome:
        attributes = {**self._attributes, ID: notification.id}
        if self._per_host:  # the host alone: a path may be a secret between the partner and us
            host, _, port = self.destination(notification).rpartition(":")
            attributes |= _server(host.strip("[]"), int(port))
        span = self._tracing.begin(self._name, Kind.CLIENT, traceparent, attributes)
        call = self._carrier.prepare(notification, key, span.traceparent or traceparent, payload)
        try:
            outcome = await call(deadline)
        except asyncio.CancelledError:
            span.end("cancelled")
            raise
        status = http_status(outcome)
        answered = {} if status is None else {self._answered: status}
        span.end(None if isinstance(outcome, Delivered) else type(outcome).__name__, answered)
        return outcome

    async def close(self) -> None:
        """See `Carrier.close`."""
        await self._carrier.close()


def _server(host: str, port: int) -> dict[str, str | int]:
    return {"server.address": host, "server.port": port}


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
        its_batch = [] if whole.traceparent is None else [whole.traceparent]
        for (row, _), parent in zip(batch, parents, strict=True):
            described = {CHANNEL: channel, ID: row.notification_id, "ringonce.status": row.status.value}
            at = now if row.sent_at is None else row.sent_at
            one = tracing.begin("record row", Kind.INTERNAL, parent, described, at=at, links=its_batch)
            one.end(at=now)
        whole.end(at=now)

    recorder.written = written
