"""A provider that refuses everything for a while: the circuit breaker, seen from the provider's side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fixtures.rows import untruths
from tests.fixtures.site import headers_of, notification
from tests.fixtures.waiting import eventually

from ringonce.domain.notification import Channel, Notification

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fixtures.fleet import Fleet
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider

pytestmark = [pytest.mark.broker, pytest.mark.embedded, pytest.mark.database]

SLOTS = 4
PERIOD = 1.0


async def test_an_open_breaker_lets_only_probes_through_and_nothing_is_given_up(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """While firebase refuses everything it hears one probe a period; afterwards all is delivered, no dead letters."""
    site.prepare(["firebase"])
    firebase = providers["firebase"]
    firebase.chaos(FAIL_RATE_503=1, RETRY_AFTER="")
    fleet.sender(max_in_flight=SLOTS, breaker_period=PERIOD)
    ids = site.send([notification(number) for number in range(100)], site.names.stage("firebase", "main"))
    await eventually(lambda: len(fleet.journal.of("BreakerChanged", before="half-open", after="open")) >= 3)
    firebase.chaos(FAIL_RATE_503=0)
    await eventually(lambda: site.history.count("delivered") == 100, so_far=site.history.statuses)

    changes = fleet.journal.of("BreakerChanged")
    assert changes[0].text == "CB firebase: closed → open"
    assert changes[0].fields["cause"] == "refused with status 503"
    assert changes[-1].text == "CB firebase: half-open → closed"
    assert changes[-1].fields["cause"] == "probe succeeded"
    opened, closed = changes[0].t, changes[-1].t
    probes = fleet.journal.of("BreakerChanged", after="half-open")
    meanwhile = [call for call in firebase.calls() if opened < call.t < closed]
    # What had begun before the transition may still arrive after it; half a period later nothing of that is left.
    assert len(meanwhile) <= len(probes) + SLOTS - 1
    assert len([call for call in meanwhile if call.t > opened + PERIOD / 2]) == len(probes)

    assert site.count(site.names.stage("firebase", "dlq")) == 0
    assert sorted(act.key for act in firebase.acts()) == sorted(ids)
    assert untruths(site.history.rows(), ids, [firebase]) == []


async def test_an_open_webhook_host_puts_its_records_off_and_the_other_host_goes_on(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """One host refuses everything: its records wait in the retry stages without spending attempts."""
    site.prepare(["webhook"])
    bad, good = providers["webhook"], providers["apns"]
    bad.chaos(FAIL_RATE_503=1, RETRY_AFTER="")
    fleet.sender("webhook", allow_hosts=(f"127.0.0.1:{good.port}",), max_in_flight=SLOTS)
    main = site.names.stage("webhook", "main")
    to_bad = site.send([webhook(f"bad-{number}", bad) for number in range(40)], main)
    await eventually(lambda: fleet.journal.of("BreakerChanged", after="open"))
    to_good = site.send([webhook(f"good-{number}", good) for number in range(40)], main)
    await eventually(lambda: site.history.unrecorded(to_good) == set())
    assert fleet.journal.of("BreakerChanged", destination=f"127.0.0.1:{good.port}") == []
    assert site.history.count() == 40

    await eventually(lambda: len(fleet.journal.of("BreakerChanged", before="half-open", after="open")) >= 2)
    bad.chaos(FAIL_RATE_503=0)
    await eventually(lambda: site.history.count("delivered") == 80, so_far=site.history.statuses)
    assert sorted(act.key for act in bad.acts()) == sorted(to_bad)
    assert sorted(call.key for call in good.calls()) == sorted(to_good)
    assert site.count(site.names.stage("webhook", "dlq")) == 0
    reasons = {
        value
        for record in site.records(site.names.stage("webhook", "retry-30s"))
        for name, value in headers_of(record)
        if name == "forward.reason"
    }
    assert b"breaker-open" in reasons
    assert untruths(site.history.rows(), [*to_bad, *to_good], [bad, good]) == []


def webhook(number: str, host: MockProvider) -> Notification:
    return notification(number, Channel.WEBHOOK, target=f"{host.url}/send")
