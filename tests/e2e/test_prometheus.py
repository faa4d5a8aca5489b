"""A fleet of processes whose provider fails half of the time, scraped by a real Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from tests.fixtures.prometheus import Prometheus
from tests.fixtures.site import notification
from tests.fixtures.waiting import eventually

from ringonce.stand.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fixtures.program import Program, Programs
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider

pytestmark = [pytest.mark.broker, pytest.mark.embedded, pytest.mark.database]

RULES: Final = Path(__file__).parents[2] / "ops" / "prometheus" / "ringonce.rules.yml"
SHOWN: Final = 15.0
"""Seconds within which a sender that was killed has to show."""

INSIDE: Final = 'max(ringonce_oldest_age_seconds{job="sender", stage="main"})'
OUTSIDE: Final = 'max(ringonce_oldest_age_seconds{job="exporter", channel="firebase", stage!="dlq"})'


async def test_age_rises_and_falls_and_a_killed_sender_shows_from_outside(
    site: Site, programs: Programs, providers: Mapping[str, MockProvider], tmp_path: Path
) -> None:
    """As an operator would see it, with the alert rules loaded."""
    site.prepare(["firebase"])
    firebase = providers["firebase"]
    firebase.chaos(FAIL_RATE_503=0.5, LATENCY_MS=50)
    ports: dict[str, int] = {}
    for job in ("router", "sender", "recorder", "exporter"):
        ports[job] = free_port(ports.values())

    def metered(job: str, *command: str) -> Program:
        return programs.start(*command, "--metrics-port", str(ports[job]))

    def start_sender() -> Program:
        delays = ("--delay-30s", "1s", "--delay-5m", "2s")
        return metered("sender", "sender", "--channel", "firebase", "--max-in-flight", "8", *delays)

    metered("router", "router", "--channels", "firebase")
    metered("recorder", "sender", "--channel", "firebase", "--mode", "dlq")
    looking = ("--channels", "firebase", "--interval", "0.5", "--delay", "retry-30s=1s", "--delay", "retry-5m=2s")
    metered("exporter", "ringonce", "exporter", *looking)
    sender = start_sender()
    with Prometheus(tmp_path, ports, RULES) as prometheus:
        await eventually(lambda: prometheus.value("sum(up)") == len(ports), 60.0)
        await eventually(lambda: prometheus.value(OUTSIDE) == 0)

        site.send([notification(number) for number in range(300)])
        for age in (INSIDE, OUTSIDE):
            await eventually(lambda age=age: prometheus.value(f"max_over_time({age}[5m:1s])") > 2, 60.0)  # type: ignore[misc]
        await eventually(lambda: site.history.count() == 300, 90.0, so_far=site.history.statuses)
        for age in (INSIDE, OUTSIDE):
            await eventually(lambda age=age: prometheus.value(age) == 0)  # type: ignore[misc]
        calls = 'sum(ringonce_attempts_total{outcome="Refused", status_class="5xx"}) / sum(ringonce_attempts_total)'
        assert 0.3 < prometheus.value(calls) < 0.7
        delivered = site.history.count("delivered")
        rows = 'sum(ringonce_history_rows{channel="firebase", status="delivered"})'
        await eventually(lambda: prometheus.value(rows) == delivered)
        written = 'sum(ringonce_terminal_rows_total{job="sender", status="delivered"})'
        await eventually(lambda: prometheus.value(written) == delivered)
        await eventually(lambda: prometheus.value("ringonce:delivered_share:rate5m") > 0.5)

        # What grows from here on must not be what is left of before.
        await eventually(lambda: prometheus.value(f"max_over_time({OUTSIDE}[6s:1s])") == 0)
        firebase.chaos(FAIL_RATE_503=0, LATENCY_MS=0)
        sender.kill()
        site.send([notification(f"late-{number}") for number in range(5)])
        grown = f"min_over_time({OUTSIDE}[4s:1s]) > 0 and deriv({OUTSIDE}[4s:1s]) > 0.5"
        await eventually(lambda: prometheus.values(grown), SHOWN, so_far=lambda: str(prometheus.values(OUTSIDE)))
        await eventually(lambda: prometheus.value('up{job="sender"}') == 0)

        start_sender()
        await eventually(lambda: site.history.count() == 305, so_far=site.history.statuses)
        await eventually(lambda: prometheus.value(OUTSIDE) == 0)
