"""Stages are data: what a channel's row says is what its records go through."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.site import headers_of, notification
from tests.fixtures.waiting import eventually

from ringonce.channels.registry import CHANNELS
from ringonce.domain.stages import Ladder, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fixtures.fleet import Fleet
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider

pytestmark = [pytest.mark.broker, pytest.mark.embedded, pytest.mark.database]

MERGED = Ladder(
    (Stage("retry-1m", 60.0), Stage("retry-30s", 30.0, retired=True), Stage("retry-5m", 300.0, retired=True))
)
"""One stage of a minute in place of two; those are still read."""


async def test_two_retry_stages_become_one_by_one_edit(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """What waits in an old stage is delivered; what fails anew passes through the new stage alone, then to the DLQ."""
    site.prepare(["firebase"])
    firebase = providers["firebase"]
    firebase.chaos(STATUS=503, RETRY_AFTER="")
    old_stage, new_stage = (site.names.stage("firebase", name) for name in ("retry-30s", "retry-1m"))
    main, dlq = site.names.stage("firebase", "main"), site.names.stage("firebase", "dlq")

    before = fleet.sender(node="before", max_attempts=1, delays={"retry-30s": 20.0})
    old = site.send([notification(f"old-{number}") for number in range(3)], main)
    await eventually(lambda: site.count(old_stage) == 3)
    await before.stop()
    firebase.chaos(reset=True)

    row = replace(CHANNELS["firebase"], ladder=MERGED)
    site.create_topics({"firebase": MERGED})
    delays = {"retry-1m": 1.0, "retry-30s": 0.5, "retry-5m": 0.5}
    fleet.sender(node="after", row=row, max_attempts=1, delays=delays)
    fleet.recorder()
    new = site.send([notification("new", payload_json='{"mock": {"status": 503}}')], main)
    await eventually(lambda: site.history.unrecorded(new) == set(), so_far=site.history.statuses)
    assert site.history.rows()["n-new"]["status"] == "dlq"
    assert site.history.rows()["n-new"]["attempts"] == 2
    assert [dict(headers_of(record))["previous.topic"] for record in site.records(dlq) if record.key() == b"user-new"]
    await eventually(lambda: site.history.unrecorded(old) == set(), so_far=site.history.statuses)
    assert {site.history.rows()[f"n-old-{number}"]["status"] for number in range(3)} == {"delivered"}

    assert site.count(old_stage) == 3, "nothing is forwarded to a retired stage"
    assert site.count(site.names.stage("firebase", "retry-5m")) == 0
    assert "n-new" in {key_of(record.key()) for record in site.records(new_stage)}


def key_of(key: object) -> str:
    assert isinstance(key, bytes)
    return key.decode().replace("user-", "n-")
