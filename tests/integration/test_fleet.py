"""The whole fleet at once, with providers that fail most of the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

pytestmark = [pytest.mark.broker, pytest.mark.embedded, pytest.mark.database]

CHANNELS = (Channel.FIREBASE, Channel.APNS, Channel.WEBHOOK)


async def test_every_notification_ends_once_and_what_failed_can_be_replayed(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """Seven of ten calls fail: each of 200 notifications is delivered or dead-lettered; then a replay delivers those.

    Two calls a stage make some 24 dead letters likely, and none at all next to impossible.
    """
    site.prepare()
    for provider in providers.values():
        provider.chaos(FAIL_RATE_503=0.7)
    fleet.router()
    for name in providers:
        fleet.sender(name, max_attempts=2)
        fleet.recorder(name)

    ids = site.send([notification(number, CHANNELS[number % 3]) for number in range(200)])
    await eventually(lambda: site.history.count("delivered", "dlq") == 200, 45.0, so_far=site.history.statuses)
    assert site.history.unrecorded(ids) == set()

    delivered = site.history.count("delivered")
    for provider in providers.values():
        provider.chaos(FAIL_RATE_503=0)
    replayed = [await fleet.replay(name) for name in providers]
    published = sum(replay.published for replay in replayed)
    assert published == 200 - delivered > 0
    await eventually(lambda: site.history.count() == 200 + published, so_far=site.history.statuses)
    assert site.history.count("delivered") - delivered >= published / 2

    await fleet.stop()
    assert untruths(site.history.rows(), ids, providers.values()) == []
    acts = [act for provider in providers.values() for act in provider.acts()]
    assert sorted(act.key for act in acts) == sorted(
        row["root_id"] for row in site.history.rows().values() if row["status"] == "delivered"
    )
