"""CONTRIBUTING's channel of ten minutes: a row is all it takes."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.fleet import BREAKER, Fleet
from tests.fixtures.rows import untruths
from tests.fixtures.site import SECRET, notification
from tests.fixtures.waiting import eventually

from ringonce import bootstrap
from ringonce.channels.registry import CATALOGUE, ChannelRow
from ringonce.domain.notification import Channel
from ringonce.domain.stages import Ladder, Stage
from ringonce.mock.thread import MockProvider
from ringonce.replaying import run_replay
from ringonce.settings import RouterSettings, StoreSettings

if TYPE_CHECKING:
    from tests.fixtures.journal import Journal
    from tests.fixtures.site import Site

pytestmark = [pytest.mark.broker, pytest.mark.embedded, pytest.mark.database]

ROW = ChannelRow(Channel.INAPP, ladder=Ladder((Stage("retry-1m", 60.0),)))
"""The wire contract has its number already; its one retry stage is its own."""


async def test_a_channel_is_a_row(site: Site, journal: Journal) -> None:
    """Routed, delivered, tried again, dead-lettered, recorded and replayed by code that has never heard of it."""
    assert ROW.name not in CATALOGUE
    site.prepare([])
    site.create_topics({ROW.name: ROW.ladder})
    with MockProvider(ROW.name, secret=SECRET) as provider:
        async with Fleet(site, {ROW.name: provider}, journal) as fleet:
            stop = threading.Event()
            router = asyncio.create_task(
                asyncio.to_thread(
                    bootstrap.run_router, RouterSettings(**fleet.settings("router")), stop, {ROW.name: ROW}
                )
            )
            fleet.sender(ROW.name, row=ROW, delays={"retry-1m": 0.5}, max_attempts=1, breaker_period=BREAKER)
            stored = StoreSettings(**fleet.settings("dlq", database_url=site.database_url))
            recorded = asyncio.Event()
            recorder = asyncio.create_task(bootstrap.run_dlq_recorder(stored, ROW, recorded))

            fates = {"well": {}, "late": {"status": 503, "times": 1}, "never": {"status": 422, "times": 1}}
            ids = site.send(
                [
                    notification(name, Channel.INAPP, payload_json=json.dumps({"mock": fate}))
                    for name, fate in fates.items()
                ]
            )
            await eventually(lambda: site.history.unrecorded(ids) == set(), so_far=site.history.statuses)
            assert site.history.statuses() == {"delivered": 2, "dlq": 1}
            assert site.history.rows()["n-late"]["stage"] == "retry-1m"
            assert {row["channel"] for row in site.history.rows().values()} == {"inapp"}

            replayed = await asyncio.to_thread(run_replay, stored, ROW)
            assert (replayed.published, replayed.skipped) == (1, 0)
            await eventually(lambda: site.history.count("delivered") == 3, so_far=site.history.statuses)
            assert untruths(site.history.rows(), ids, [provider]) == []

            stop.set()
            recorded.set()
            await asyncio.gather(router, recorder)
