"""Every role's pages, on real servers."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from tests.fixtures.scrape import Scrape, page
from tests.fixtures.site import notification
from tests.fixtures.waiting import eventually

from ringonce.domain.notification import Channel
from ringonce.exporting import rows_with_delays, run_exporter
from ringonce.settings import ExporterSettings, load
from ringonce.stand.ports import free_port
from ringonce.tools.board import board
from ringonce.tools.sources import servers
from ringonce.tools.top import top

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.fixtures.fleet import Fleet
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider
    from ringonce.tools.board import Line

pytestmark = [pytest.mark.broker, pytest.mark.embedded, pytest.mark.database]

OLDEST = "ringonce_oldest_age_seconds"


@pytest.fixture
def exporter(site: Site) -> Iterator[int]:
    """An exporter that looks often at a fleet of firebase alone; its port."""
    site.prepare(["firebase"])
    port = free_port()
    settings = load(
        ExporterSettings,
        kafka_bootstrap=site.bootstrap,
        database_url=site.database_url,
        topic_prefix=site.prefix,
        metrics_port=port,
        exporter_interval=0.2,
    )
    stop = threading.Event()
    rows = rows_with_delays(["firebase"], {"retry-30s": 300.0, "retry-5m": 600.0})
    thread = threading.Thread(target=run_exporter, args=(settings, rows, stop))
    thread.start()
    yield port
    stop.set()
    thread.join()


async def test_a_fleet_shows_what_it_does(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider], exporter: int
) -> None:
    """Counts agree with the database; both kinds of latency are there; each role is alive and ready."""
    ports = {name: free_port() for name in ("router", "sender", "dlq")}
    providers["firebase"].chaos(FAIL_RATE_503=0.3)
    fleet.router(channels=("firebase",), metrics_port=ports["router"])
    fleet.sender(store={"metrics_port": ports["sender"]})
    fleet.recorder(metrics_port=ports["dlq"])
    site.send([notification(number) for number in range(200)])
    site.send([notification("rejected", channel=Channel.APNS)], site.names.stage("firebase", "main"))
    await eventually(lambda: site.history.count() == 201, so_far=site.history.statuses)

    delivered, dead = site.history.count("delivered"), site.history.count("dlq")
    # A row is counted right after it is durable, not at the same moment.
    await eventually(lambda: Scrape(ports["sender"]).sum("ringonce_terminal_rows_total") == delivered)
    await eventually(lambda: Scrape(ports["dlq"]).sum("ringonce_terminal_rows_total", status="dlq") == dead)
    sender = await asyncio.to_thread(Scrape, ports["sender"])
    assert sender.value("ringonce_terminal_rows_total", channel="firebase", status="delivered") == delivered
    for latency in ("created", "dispatched"):
        assert sender.value(f"ringonce_delivery_since_{latency}_seconds_count", channel="firebase") == delivered
    assert sender.sum("ringonce_attempts_total", outcome="Delivered", status_class="2xx") == delivered
    assert sender.sum("ringonce_attempts_total", outcome="Refused", status_class="5xx") > 0
    assert sender.sum("ringonce_forwards_total", stage="dlq", reason="permanent") == 1
    assert sender.value("ringonce_database_seconds_count", channel="firebase", operation="record")
    assert sender.value("ringonce_produce_seconds_count", channel="firebase")
    assert sender.sum("ringonce_breakers", channel="firebase") == 1
    assert (sender.value("ringonce_send_slots", channel="firebase") or 0) >= 64  # more while the provider is quick
    assert sender.value("ringonce_info", role="firebase-sender", channel="firebase", node="firebase-sender") == 1
    assert sender.sum("ringonce_partitions", channel="firebase") == 6
    router = await asyncio.to_thread(Scrape, ports["router"])
    assert router.value("ringonce_routed_total", channel="firebase") == 200
    for port in ports.values():
        for path in ("/healthz", "/readyz"):
            answer = await asyncio.to_thread(page, port, path)
            assert answer is not None
            assert answer.status == 200, answer.body

    def outside() -> list[float | None]:
        seen, main = Scrape(exporter), {"channel": "firebase", "stage": "main"}
        return [
            seen.value("ringonce_history_rows", channel="firebase", status="delivered"),
            seen.value("ringonce_dlq_records", channel="firebase"),
            seen.value("ringonce_lag_records", **main),
            seen.value(OLDEST, seen_from="outside", **main),
        ]

    await eventually(lambda: outside() == [delivered, dead, 0, 0], so_far=outside)


async def test_top_shows_a_fleet_from_its_ports_and_from_the_servers(site: Site, fleet: Fleet) -> None:
    """Latencies and slots where a sender can be asked; ages, lags and rows where none can."""
    site.prepare(["firebase"])
    port = free_port()
    fleet.sender(store={"metrics_port": port})
    site.send([notification(number) for number in range(20)], site.names.stage("firebase", "main"))
    await eventually(lambda: site.history.count("delivered") == 20, so_far=site.history.statuses)

    told = await asyncio.to_thread(shown, ["--endpoint", str(port)])
    line = told["lines"][0]
    assert told["source"] == "1 metrics port"
    assert (line["channel"], line["stage"], line["lag"]) == ("firebase", "main", None)
    assert (line["in_flight"], line["breakers"], line["held"], line["age"]) == (0, 0, 0, 0)
    assert line["slots"] >= 64

    site.send([notification("buried")], site.names.stage("firebase", "dlq"))
    settings = load(
        ExporterSettings,
        kafka_bootstrap=site.bootstrap,
        database_url=site.database_url,
        topic_prefix=site.prefix,
    )
    rows = rows_with_delays(["firebase"], None)

    def outside() -> tuple[str, list[Line]]:
        with servers(settings, rows) as source:
            lines = board(source.read(), source.read())
            return str(source), lines

    where, lines = await asyncio.to_thread(outside)
    assert where == "Kafka and PostgreSQL"
    assert [(found.channel, found.stage, found.lag) for found in lines if found.channel == "firebase"] == [
        ("firebase", "main", 0),
        ("firebase", "retry-30s", 0),
        ("firebase", "retry-5m", 0),
        ("firebase", "dlq", 1),
    ]


def shown(arguments: list[str]) -> dict[str, Any]:
    """What `ringonce top` prints for machines."""
    done = CliRunner().invoke(top, [*arguments, "--once", "--json", "--every", "0.2"])
    assert done.exit_code == 0, done.output
    told: dict[str, Any] = json.loads(done.output)
    return told


async def test_age_is_what_waits_and_is_due(site: Site, exporter: int) -> None:
    """With nobody at work the age in main grows; in a retry stage it stays 0 until the first record is due."""
    site.send([notification(1)], site.names.stage("firebase", "main"))
    site.send([notification(2)], site.names.stage("firebase", "retry-30s"))

    def seen(name: str, stage: str) -> float | None:
        labels = {"seen_from": "outside"} if name == OLDEST else {}
        return Scrape(exporter).value(name, channel="firebase", stage=stage, **labels)

    await eventually(lambda: seen("ringonce_lag_records", "retry-30s") == 1)
    first = await eventually(lambda: seen(OLDEST, "main"))
    await eventually(lambda: (seen(OLDEST, "main") or 0.0) > (first or 0.0) + 0.5)
    assert await asyncio.to_thread(seen, OLDEST, "retry-30s") == 0
    answer = await asyncio.to_thread(page, exporter, "/readyz")
    assert answer is not None
    assert answer.status == 200, answer.body
