"""One notification's spans, from the router to its row, as a collector gets them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.collector import Collector, collecting
from tests.fixtures.site import Entry, headers_of, notification
from tests.fixtures.waiting import eventually

from ringonce.kafka.codec import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.fleet import Fleet
    from tests.fixtures.site import Site

pytestmark = [pytest.mark.broker, pytest.mark.embedded, pytest.mark.database]

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
TRACEPARENT = ("traceparent", f"00-{TRACE}-{PARENT}-01".encode())


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector, and a process that is told of it."""
    with collecting() as one:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", one.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        yield one


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
    await fleet.stop()  # which sends what is left: each process exports in its own time

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
    await fleet.stop()
    assert len(collector.of("record row")) == 1
    [routed] = collector.of(f"send {site.names.stage('firebase', 'main')}")
    assert routed.parent == ""
    assert {span.trace for span in collector.spans if span.name != "record"} == {routed.trace}
    assert len(collector.of(f"send {site.names.stage('firebase', 'retry-30s')}")) == 1


async def test_a_dead_letters_trace_ends_with_its_row(site: Site, fleet: Fleet, collector: Collector) -> None:
    """Router, call, forward and the recorder's row, by three processes, under the producer's span."""
    site.prepare(["firebase"])
    fleet.router(channels=("firebase",), tracing="otlp")
    fleet.sender(store={"tracing": "otlp"})
    fleet.recorder(tracing="otlp")
    sent = notification("d", payload_json='{"mock": {"status": 400}}')
    site.produce([Entry(encode(sent), b"user-d", (TRACEPARENT,))])
    await eventually(lambda: site.history.count("dlq") == 1, so_far=site.history.statuses)
    await fleet.stop()
    mine = sorted((span.service, span.name) for span in collector.spans if span.trace == TRACE)
    assert mine == [
        ("ringonce-firebase-dlq", "record row"),
        ("ringonce-firebase-sender", "deliver firebase"),
        ("ringonce-firebase-sender", f"send {site.names.stage('firebase', 'dlq')}"),
        ("ringonce-router", f"send {site.names.stage('firebase', 'main')}"),
    ]


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
