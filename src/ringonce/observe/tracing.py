"""Spans, by way of OpenTelemetry: the only place that knows it, and it is imported only where tracing is on.

Where spans go, and how many of them, is told by OpenTelemetry's own variables: `OTEL_EXPORTER_OTLP_ENDPOINT`,
`OTEL_TRACES_SAMPLER` and so on (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/).
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from enum import StrEnum
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from ringonce.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HEADER: Final = "traceparent"
NANOSECONDS: Final = 1_000_000_000
PATIENCE: Final = 2.0
"""Seconds that a process which stops gives the last of its spans; left to itself OpenTelemetry takes up to 30."""

log = logging.getLogger(__name__)


class Kind(StrEnum):
    """What a span stands for."""

    PRODUCER = "PRODUCER"
    CLIENT = "CLIENT"
    INTERNAL = "INTERNAL"


class Span:
    """One span under way."""

    def __init__(self, span: Any, traceparent: str | None) -> None:
        self._span = span
        self.traceparent = traceparent
        """W3C Trace Context, for whoever is called; None where OTEL_SDK_DISABLED leaves nothing to tell."""

    def end(
        self, error: str | None = None, attributes: Mapping[str, str | int] | None = None, at: float | None = None
    ) -> None:
        """It is over, at `at` seconds since the epoch or now; `error` is the class of what went wrong, if anything."""
        from opentelemetry.trace import StatusCode  # noqa: PLC0415

        self._span.set_attributes(attributes or {})
        if error is not None:
            self._span.set_attribute("error.type", error)
            self._span.set_status(StatusCode.ERROR)
        self._span.end(_nanoseconds(at))


class Tracing:
    """Begins the spans of one process."""

    def __init__(self, provider: Any) -> None:
        from opentelemetry import trace  # noqa: PLC0415
        from opentelemetry.context import Context  # noqa: PLC0415
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        self._trace = trace
        self._nothing = Context()
        self._propagator = TraceContextTextMapPropagator()
        self._tracer = provider.get_tracer("ringonce", version("ringonce"))

    def begin(
        self,
        name: str,
        kind: Kind,
        parent: str | None,
        attributes: Mapping[str, str | int],
        *,
        at: float | None = None,
        links: Sequence[str] = (),
    ) -> Span:
        """Begin one.

        Args:
            name: few of them: what is done, to which topic or channel.
            kind: what it stands for.
            parent: a traceparent; without one the span begins a trace.
            attributes: by OpenTelemetry's semantic conventions, or under `ringonce.`.
            at: seconds since the epoch; now without.
            links: traceparents of spans that it has to do with.
        """
        span = self._tracer.start_span(
            name,
            self._context(parent),
            self._trace.SpanKind[kind.value],
            attributes,
            [self._trace.Link(self._trace.get_current_span(self._context(link)).get_span_context()) for link in links],
            _nanoseconds(at),
        )
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, self._trace.set_span_in_context(span))
        return Span(span, carrier.get(HEADER))

    def _context(self, traceparent: str | None) -> Any:
        # An empty context, not none: none would be whatever this thread is about.
        return self._propagator.extract({} if traceparent is None else {HEADER: traceparent}, self._nothing)


def _nanoseconds(at: float | None) -> int | None:
    return None if at is None else int(at * NANOSECONDS)


@contextmanager
def tracing(how: str, role: str, node: str, patience: float = PATIENCE) -> Iterator[Tracing | None]:
    """Trace for as long as the block lasts; None where `how` is ``off``. What is left is sent at its end.

    Args:
        how: ``off`` or ``otlp``.
        role: names the service, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES does.
        node: its instance.
        patience: seconds that the end of the block waits for a collector.

    Raises:
        ConfigurationError: OpenTelemetry is not installed.
    """
    if how == "off":
        yield None
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ModuleNotFoundError:
        raise ConfigurationError(["RINGONCE_TRACING needs OpenTelemetry, which comes with ringonce[otel]"]) from None
    about = {"service.name": f"ringonce-{role}", "service.instance.id": node, "service.version": version("ringonce")}
    # Once more at the end: of two that name a thing the later one wins, and the operator's word is above ours.
    resource = Resource.create(about).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield Tracing(provider)
    finally:
        _end(provider, patience)


def _end(provider: Any, patience: float) -> None:
    # Not in this thread: while a collector is away or deaf it would stand here, and with it a process that was told to
    # stop and has closed neither its database nor, for its supervisor, itself.
    ending = threading.Thread(target=provider.shutdown, name="last-spans", daemon=True)
    ending.start()
    ending.join(patience)
    if ending.is_alive():
        log.warning("the last spans could not be sent in time and are given up")
