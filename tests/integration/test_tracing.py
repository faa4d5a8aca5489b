"""One notification's spans, from the router to its row, as a collector gets them."""

from __future__ import annotations

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.fixtures.site import Entry, headers_of, notification
from tests.fixtures.waiting import eventually

from ringonce.kafka.codec import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.fixtures.fleet import Fleet
    from tests.fixtures.site import Site

pytestmark = [pytest.mark.broker, pytest.mark.embedded, pytest.mark.database]

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
TRACEPARENT = ("traceparent", f"00-{TRACE}-{PARENT}-01".encode())


class Seen(NamedTuple):
    """A span as it arrived."""

    service: str
    name: str
    trace: str
    parent: str
    links: frozenset[str]
    attributes: Mapping[str, str | int]


class Collector:
    """Takes OTLP over HTTP, as a collector does."""

    def __init__(self) -> None:
        self.spans: list[Seen] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def take(self, request: ExportTraceServiceRequest) -> None:
        """Keep what came."""
        for about in request.resource_spans:
            resource = {one.key: one.value.string_value for one in about.resource.attributes}
            for scope in about.scope_spans:
                for span in scope.spans:
                    attributes = {one.key: one.value.string_value or one.value.int_value for one in span.attributes}
                    links = frozenset(link.trace_id.hex() for link in span.links)
                    self.spans.append(
                        Seen(
                            resource["service.name"],
                            span.name,
                            span.trace_id.hex(),
                            span.parent_span_id.hex(),
                            links,
                            attributes,
                        )
                    )

    def of(self, name: str) -> list[Seen]:
        """The spans with this name."""
        return [span for span in self.spans if span.name == name]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector, and a process that is told of it."""
    one = Collector()
    thread = threading.Thread(target=one.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", one.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    yield one
    one.server.shutdown()
    thread.join()
    one.server.server_close()


async def test_one_notifications_spans_share_one_trace(site: Site, fleet: Fleet, collector: Collector) -> None:
    """Routed, refused once, delivered, recorded: all under the producer's span; the batch's is linked."""
    site.prepare(["firebase"])
    main = site.names.stage("firebase", "main")
    fleet.router(channels=("firebase",), tracing="otlp")
    fleet.sender(store={"tracing": "otlp"})
    failing = '{"mock": {"status": 503, "times": 1}}'
    sent = notification("a", payload_json=failing)
    site.produce([Entry(encode(sent), b"user-a", (TRACEPARENT,))])
    await eventually(lambda: site.history.count("delivered") == 1, so_far=site.history.statuses)
    await eventually(lambda: collector.of("record row"), so_far=lambda: collector.spans)

    mine = [span for span in collector.spans if span.trace == TRACE]
    assert {span.parent for span in mine} == {PARENT}
    assert sorted((span.service, span.name) for span in mine) == [
        ("ringonce-firebase-sender", "deliver firebase"),
        ("ringonce-firebase-sender", "deliver firebase"),
        ("ringonce-firebase-sender", "record row"),
        ("ringonce-router", f"send {main}"),
    ]
    calls = [
        (span.attributes["http.response.status_code"], span.attributes.get("error.type"))
        for span in collector.of("deliver firebase")
    ]
    assert calls == [(503, "Refused"), (200, None)]
    [batch], [row] = collector.of("record"), collector.of("record row")
    assert batch.trace != TRACE
    assert (batch.links, row.links) == (frozenset({TRACE}), frozenset({batch.trace}))
    assert row.attributes["ringonce.status"] == "delivered"
    assert row.attributes["ringonce.notification.id"] == "n-a"


async def test_a_record_without_a_trace_gets_one_from_the_router(
    site: Site, fleet: Fleet, collector: Collector
) -> None:
    """And keeps it through a retry stage."""
    site.prepare(["firebase"])
    fleet.router(channels=("firebase",), tracing="otlp")
    fleet.sender(store={"tracing": "otlp"}, max_attempts=1)
    site.send([notification("b", payload_json='{"mock": {"status": 503, "times": 1}}')])
    await eventually(lambda: site.history.count("delivered") == 1, so_far=site.history.statuses)
    await eventually(lambda: len(collector.of("record row")) == 1, so_far=lambda: collector.spans)
    [routed] = collector.of(f"send {site.names.stage('firebase', 'main')}")
    assert routed.parent == ""
    assert {span.trace for span in collector.spans if span.name != "record"} == {routed.trace}
    assert len(collector.of(f"send {site.names.stage('firebase', 'retry-30s')}")) == 1


async def test_off_means_that_nothing_is_sent_and_traceparent_passes(
    site: Site, fleet: Fleet, collector: Collector
) -> None:
    """The default."""
    site.prepare(["firebase"])
    fleet.router(channels=("firebase",))
    fleet.sender()
    site.produce([Entry(encode(notification("c")), b"user-c", (TRACEPARENT,))])
    await eventually(lambda: site.history.count("delivered") == 1, so_far=site.history.statuses)
    [routed] = await asyncio.to_thread(site.records, site.names.stage("firebase", "main"))
    assert TRACEPARENT in headers_of(routed)
    await fleet.stop()  # which would send what is left
    assert collector.spans == []
