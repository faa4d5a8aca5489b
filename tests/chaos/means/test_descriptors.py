"""A sender that has fewer descriptors than calls it may have in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from tests.chaos.means import descriptors as means
from tests.chaos.means.descriptors import in_use, limit, limited
from tests.fixtures.rows import beyond_the_first, untruths
from tests.fixtures.site import notification
from tests.fixtures.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fixtures.program import Programs
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider

pytestmark = [
    pytest.mark.broker,
    pytest.mark.database,
    pytest.mark.skipif(bool(means.lacks()), reason=f"no-means: {means.lacks()}"),
]

FEW: Final = 64
PLENTY: Final = 1024


def test_a_command_is_limited_from_its_beginning() -> None:
    command = limited(["sender", "--channel", "fire base"], FEW)
    assert command[-3:] == ["sender", "--channel", "fire base"]
    assert f"ulimit -S -n {FEW}" in command[2]


async def test_a_sender_without_descriptors_gets_slow_and_loses_nothing(
    site: Site, programs: Programs, providers: Mapping[str, MockProvider]
) -> None:
    """What cannot connect was not sent: it is tried again, never twice, and with more descriptors goes on at once."""
    site.prepare(["firebase"])
    firebase = providers["firebase"]
    firebase.chaos(LATENCY_MS=50)
    main = site.names.stage("firebase", "main")
    stages = ("--delay-30s", "0.5s", "--delay-5m", "1s")
    sender = programs.start("sender", "--channel", "firebase", "--max-in-flight", "64", *stages)
    pid = sender._process.pid
    ids = site.send([notification("first")], main)
    await eventually(lambda: site.history.unrecorded(ids) == set(), so_far=site.history.statuses)

    limit(pid, FEW)
    ids += site.send([notification(number) for number in range(300)], main)
    await eventually(lambda: in_use(pid) == FEW)
    await eventually(lambda: [each for each in sender.events("BreakerChanged") if each["after"] == "open"])
    limit(pid, PLENTY)
    await eventually(lambda: in_use(pid) > FEW)
    await eventually(lambda: site.history.unrecorded(ids) == set(), so_far=site.history.statuses)
    assert beyond_the_first(firebase.acts()) == 0
    assert untruths(site.history.rows(), ids, [firebase]) == []
    assert sender.stop() == 0, sender.text()
