"""The commands of the README, from an empty database and an empty broker to a delivered replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fixtures.rows import untruths
from tests.fixtures.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fixtures.program import Programs
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider

pytestmark = [pytest.mark.broker, pytest.mark.database]


async def test_from_nothing_to_a_delivered_replay(
    site: Site, programs: Programs, providers: Mapping[str, MockProvider]
) -> None:
    """Make database and topics, start the fleet, seed, watch, replay, stop: nothing but the programs themselves."""
    site.make_database()
    code, text = programs.run("ringonce", "db", "init")
    assert (code, "applied 0001" in text) == (0, True), text
    assert programs.run("ringonce", "db", "init") == (0, "the schema is up to date\n")
    code, text = programs.run("ringonce", "topics", "create", "--partitions", "2")
    assert (code, text.count("created ")) == (0, 14), text
    assert programs.run("ringonce", "topics", "create") == (0, "every topic is there\n")

    commands = [("router",), ("router", "--mode", "dlq")]
    for name in providers:
        commands += [("sender", "--channel", name), ("sender", "--channel", name, "--mode", "dlq")]
    fleet = [programs.start(*command) for command in commands]
    providers["apns"].chaos(STATUS=400)
    code, text = programs.run("ringonce", "seed", "--count", "90")
    assert (code, text.startswith("published 90 notifications as seed-")) == (0, True), text
    await eventually(lambda: site.history.count() == 90, 60.0, so_far=site.history.statuses)
    code, text = programs.run("ringonce", "history")
    assert [line.split() for line in text.splitlines()[1:]] == [
        ["apns", "dlq", "30"],
        ["firebase", "delivered", "30"],
        ["webhook", "delivered", "30"],
    ]

    providers["apns"].chaos(reset=True)
    code, text = programs.run("ringonce", "replay", "--channel", "apns")
    assert (code, text.splitlines()[-1]) == (0, "replayed 30, skipped 0"), text
    await eventually(lambda: site.history.count() == 120, so_far=site.history.statuses)
    assert [program.stop() for program in fleet] == [0] * len(fleet)
    assert not [program.text() for program in fleet if "Traceback" in program.text()]

    rows = site.history.rows()
    assert site.history.statuses() == {"delivered": 90, "dlq": 30}
    ids = {row["root_id"] for row in rows.values()}
    assert len(ids) == 90
    assert untruths(rows, ids, providers.values()) == []
    assert {provider.stats()["duplicates"] for provider in providers.values()} == {0}

    assert programs.run("ringonce", "db", "truncate") == (0, "gate and history are empty\n")
    assert site.history.rows() == {}
    code, text = programs.run("ringonce", "topics", "delete", "--yes")
    assert (code, text.count("deleted ")) == (0, 14), text
