"""What nobody may read is in no log line and no metric, at the most talkative level."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.chaos.canaries import Canaries, in_files
from tests.fixtures.program import parse_events
from tests.fixtures.scrape import page
from tests.fixtures.site import SECRET, Entry, notification
from tests.fixtures.waiting import eventually

from ringonce.domain.notification import Channel, Instant
from ringonce.stand.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.fixtures.program import Programs
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider

pytestmark = [pytest.mark.broker, pytest.mark.embedded, pytest.mark.database]


@pytest.mark.parametrize("client", ["pyreqwest", "httpx"])
async def test_no_payload_address_or_secret_is_logged(
    client: str, site: Site, programs: Programs, providers: Mapping[str, MockProvider], tmp_path: Path
) -> None:
    """Delivered, refused, not sent and not even readable: whatever becomes of them, with either HTTP client."""
    site.prepare(["webhook"])
    canaries = Canaries.plant(7, SECRET)
    providers["webhook"].chaos(FAIL_RATE_503=0.3)
    alive, dead = providers["webhook"].url, f"127.0.0.1:{free_port()}"
    port = free_port()
    text = {"title": canaries.text(), "body": canaries.text()}
    fields: dict[str, Any] = {**text, "payload_json": canaries.payload_json()}
    targets = [f"{alive}/send", f"http://{dead}/send", f"http://nobody-may:{canaries.token}@{dead}/send", "no target"]
    # A host that is not there opens its breaker, and what is for it goes round until it expires.
    fields["expires_at"] = Instant(int(time.time()) + 10)
    letters = [
        notification(number, Channel.WEBHOOK, target=canaries.target(targets[number % 4]), trace_id="t-1", **fields)
        for number in range(40)
    ]
    programs.start(
        *("sender", "--channel", "webhook", "--http-client", client, "--allow-host", dead, "--log-level", "DEBUG"),
        *("--delay-30s", "0.2s", "--delay-5m", "0.4s", "--metrics-port", str(port)),
    )
    programs.start("sender", "--channel", "webhook", "--mode", "dlq", "--log-level", "DEBUG")
    topic = site.names.stage("webhook", "main")
    site.send(letters, topic)
    site.produce([Entry(f"\xff{canaries.payload}{canaries.phone}".encode("latin-1"))], topic)
    await eventually(lambda: site.history.count() == 41, so_far=site.history.statuses)

    logs = [tmp_path / f"{number}-sender.log" for number in range(2)]
    assert in_files(canaries, logs).findings == ()
    metrics = page(port, "/metrics")
    assert metrics is not None
    assert [name for form, name in canaries.forms().items() if form in metrics.body] == []
    # And it was talkative: a line for each row and each forward, with what they are found by.
    lines = "".join(log.read_text() for log in logs)
    ended = parse_events(lines, "Ended")
    assert len({line["notification_id"] for line in ended}) == 41
    assert {"t-1"} < {line["trace_id"] for line in ended}
    assert {line["channel"] for line in ended} == {"webhook"}
    assert all(line["node"] and line["role"] for line in ended)
    assert len(parse_events(lines, "Forwarded")) > 0
