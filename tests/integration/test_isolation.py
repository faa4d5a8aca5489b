"""A fault stays where it is: one provider that hangs slows no other channel, one endpoint no other endpoint.

Pace is compared with the same work before the fault, on the same machine, as a ratio of medians.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

import pytest
from tests.fixtures.rows import untruths
from tests.fixtures.site import notification
from tests.fixtures.waiting import eventually

from ringonce.domain.notification import Channel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fixtures.fleet import Fleet
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider

pytestmark = [pytest.mark.broker, pytest.mark.database]

ALL: Final = (Channel.FIREBASE, Channel.APNS, Channel.WEBHOOK)
EACH: Final = 150
HOST_EACH: Final = 400
ROUNDS: Final = 3
AT_MOST: Final = 2.0
"""How many times longer the same work may take beside a fault; a stall would take many times longer."""


def acts(provider: MockProvider) -> int:
    return sum(act.status == 200 for act in provider.acts())


async def test_a_channel_that_hangs_slows_no_other(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """Firebase hangs: apns and webhook keep their pace, through the one router that all share."""
    site.prepare(["firebase", "apns", "webhook"])
    hanging, others = providers["firebase"], (providers["apns"], providers["webhook"])
    for provider in others:
        provider.chaos(LATENCY_MS=20)
    fleet.router()
    for name in providers:
        fleet.sender(name, max_in_flight=8)
    ids: list[str] = []

    async def work(name: str) -> float:
        """Seconds from the first to the last delivery of one round by the channels that are well."""
        before = [acts(provider) for provider in others]
        each = [(number, channel) for number in range(EACH) for channel in ALL]
        ids.extend(site.send([notification(f"{name}-{channel}-{number}", channel) for number, channel in each]))
        await eventually(
            lambda: [acts(provider) - was for provider, was in zip(others, before, strict=True)] == [EACH, EACH]
        )
        times = [act.t for provider, was in zip(others, before, strict=True) for act in provider.acts(was)]
        return max(times) - min(times)

    await work("warm-up")
    healthy = [await work(f"healthy-{number}") for number in range(ROUNDS)]
    hanging.chaos(HANG=True)
    beside = [await work(f"beside-{number}") for number in range(ROUNDS)]
    assert hanging.stats()["in_flight"] != 0, "nobody hung"
    assert median(beside) / median(healthy) <= AT_MOST

    hanging.chaos(HANG=False)
    await eventually(lambda: site.history.unrecorded(ids) == set(), so_far=site.history.statuses)
    assert untruths(site.history.rows(), ids, providers.values()) == []


async def test_a_webhook_host_that_hangs_slows_no_other_host(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """One of two hosts hangs, with more records than the process takes in: the other host keeps its pace."""
    site.prepare(["webhook"])
    hanging, other = providers["firebase"], providers["webhook"]
    other.chaos(LATENCY_MS=80)
    fleet.sender("webhook", allow_hosts=(f"127.0.0.1:{hanging.port}",), max_in_flight=64)
    main = site.names.stage("webhook", "main")
    ids: list[str] = []

    async def work(name: str) -> float:
        """Seconds from the first to the last delivery of one round to the host that is well."""
        before = acts(other)
        each = [(number, host) for number in range(HOST_EACH) for host in (hanging, other)]
        sent = [
            notification(f"{name}-{host.name}-{number}", Channel.WEBHOOK, target=f"{host.url}/send")
            for number, host in each
        ]
        ids.extend(site.send(sent, main))
        await eventually(lambda: acts(other) - before == HOST_EACH)
        times = [act.t for act in other.acts(before)]
        return max(times) - min(times)

    await work("warm-up")
    healthy = [await work(f"healthy-{number}") for number in range(ROUNDS)]
    await eventually(lambda: site.history.unrecorded(ids) == set(), so_far=site.history.statuses)
    hanging.chaos(HANG=True)
    beside = [await work(f"beside-{number}") for number in range(ROUNDS)]
    assert median(beside) / median(healthy) <= AT_MOST

    hanging.chaos(HANG=False)
    await eventually(lambda: site.history.unrecorded(ids) == set(), so_far=site.history.statuses)
    assert sorted(act.key for act in other.calls()) == sorted(name for name in ids if "webhook" in name)
    assert untruths(site.history.rows(), ids, [hanging, other]) == []
