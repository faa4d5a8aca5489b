"""A provider's name that is not found, and found again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.chaos.means import names as means
from tests.chaos.means.names import NAME, Names
from tests.fixtures.rows import beyond_the_first, untruths
from tests.fixtures.site import Site, notification
from tests.fixtures.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.fixtures.program import Program, Programs

    from ringonce.mock.thread import MockProvider

pytestmark = [
    pytest.mark.broker,
    pytest.mark.database,
    pytest.mark.skipif(bool(means.lacks()), reason=f"no-means: {means.lacks()}"),
]


async def test_while_its_provider_has_no_name_a_sender_holds_and_then_goes_on(
    site: Site, programs: Programs, providers: Mapping[str, MockProvider], tmp_path: Path
) -> None:
    """It is a breaker that opens, not a message that fails: no call is made, and nothing reaches the DLQ."""
    site.prepare(["firebase"])
    firebase = providers["firebase"]
    names = Names(tmp_path, {NAME: "127.0.0.1"})
    target = {"RINGONCE_CHANNELS__FIREBASE__TARGET": f"http://{NAME}:{firebase.port}/send"}
    main = site.names.stage("firebase", "main")
    stages = ("--delay-30s", "0.5s", "--delay-5m", "1s")
    sender = programs.start("sender", "--channel", "firebase", *stages, **names.environment, **target)
    ids = site.send([notification(f"before-{number}") for number in range(50)], main)
    await eventually(lambda: site.history.unrecorded(ids) == set(), so_far=site.history.statuses)

    for turn in range(2):
        names.forget(NAME)
        # Connections that are open outlive their name: only new ones need it.
        firebase.stop()
        firebase.start()
        lost = site.send([notification(f"lost-{turn}-{number}") for number in range(50)], main)
        ids += lost
        await eventually(lambda turn=turn: len(opened(sender)) > turn)  # type: ignore[misc]
        assert opened(sender)[-1]["cause"] == "not sent: name not resolved"
        assert {act.key for act in firebase.acts()}.isdisjoint(lost)
        names.know(NAME)
        await eventually(lambda lost=lost: not site.history.unrecorded(lost), so_far=site.history.statuses)  # type: ignore[misc]
    assert site.history.statuses() == {"delivered": 150}
    assert beyond_the_first(firebase.acts()) == 0
    assert untruths(site.history.rows(), ids, [firebase]) == []
    assert sender.stop() == 0, sender.text()


def opened(sender: Program) -> list[dict[str, Any]]:
    return [change for change in sender.events("BreakerChanged") if change["before"] == "closed"]
