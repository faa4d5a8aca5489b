"""One notification, asked for afterwards: what happened to it, where, and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.fixtures.site import Entry, notification
from tests.fixtures.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fixtures.fleet import Fleet
    from tests.fixtures.program import Programs
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider

pytestmark = [pytest.mark.broker, pytest.mark.database]

FAILS_TWICE = '{"mock": {"status": 503, "times": 2}}'


def attempts(site: Site) -> list[tuple[str, str, int | None]]:
    """Id, outcome and status code of every attempt in the database, in the order of time."""
    with psycopg.connect(site.database_url) as connection:
        query = "SELECT notification_id, outcome, http_status FROM delivery_attempts ORDER BY attempted_at"
        return connection.execute(query).fetchall()


def traced(programs: Programs, *arguments: str) -> dict[str, Any]:
    """What `ringonce trace --json` says."""
    code, text = programs.run("ringonce", "trace", *arguments, "--json")
    assert code == 0, text
    told: dict[str, Any] = json.loads(text)
    return told


def steps(told: Mapping[str, Any]) -> list[tuple[str, str, Any, Any]]:
    """Step, id, and what came of it: topic and outcome or status."""
    return [
        (entry["step"], entry["id"], entry.get("place", {}).get("topic"), entry.get("outcome") or entry.get("status"))
        for entry in told["timeline"]
    ]


async def test_a_record_that_fails_twice_and_is_delivered_has_its_whole_timeline(
    site: Site, fleet: Fleet, programs: Programs
) -> None:
    """Entry, main, both failures, the retry stage, the success and the row: one command, in the order of time."""
    site.prepare(["firebase"])
    entry, main, retry = site.names.entry, *(site.names.stage("firebase", name) for name in ("main", "retry-30s"))
    fleet.router("router-1", ("firebase",))
    fleet.sender(node="sender-1", max_attempts=2)
    site.send([notification("fails", payload_json=FAILS_TWICE), notification("fine")])
    await eventually(lambda: site.history.count("delivered") == 2, so_far=site.history.statuses)
    await eventually(lambda: len(attempts(site)) == 3)
    told = traced(programs, "n-fails")
    assert steps(told) == [
        ("entered", "n-fails", entry, None),
        ("routed", "n-fails", main, None),
        ("tried", "n-fails", main, "Refused"),
        ("tried", "n-fails", main, "Refused"),
        ("forwarded", "n-fails", retry, None),
        ("tried", "n-fails", retry, "Delivered"),
        ("recorded", "n-fails", None, "delivered"),
    ]
    assert told["notes"] == []
    by_step = {entry["step"]: entry for entry in told["timeline"]}
    assert by_step["routed"]["node"] == "router-1"
    assert (by_step["forwarded"]["reason"], by_step["forwarded"]["attempts"]) == ("next-retry", 2)
    assert (by_step["tried"]["node"], by_step["tried"]["http_status"]) == ("sender-1", 200)
    assert 0 < by_step["tried"]["duration"] < 3
    assert (by_step["recorded"]["attempts"], by_step["recorded"]["channel"]) == (3, "firebase")

    told = traced(programs, "n-fine")
    assert [step for step, *_ in steps(told)] == ["entered", "routed", "recorded"]
    assert told["notes"] == ["no attempt was kept; RINGONCE_ATTEMPTS=failures keeps none of a success at once"]
    code, text = programs.run("ringonce", "trace", "n-fails")
    assert code == 0
    assert len(text.splitlines()) == 8
    assert "Refused 503 after " in text


async def test_a_replay_is_part_of_the_timeline(
    site: Site, fleet: Fleet, programs: Programs, providers: Mapping[str, MockProvider]
) -> None:
    """Asked for by either id."""
    site.prepare(["firebase"])
    main, dlq = (site.names.stage("firebase", name) for name in ("main", "dlq"))
    providers["firebase"].chaos(STATUS=400)
    fleet.sender()
    fleet.recorder()
    site.send([notification("late")], main)
    await eventually(lambda: site.history.count("dlq") == 1)
    providers["firebase"].chaos(reset=True)
    await fleet.replay("firebase")
    await eventually(lambda: site.history.count("delivered") == 1)
    told = traced(programs, "replay-1-n-late")
    assert told == traced(programs, "n-late")
    assert steps(told) == [
        ("routed", "n-late", main, None),
        ("tried", "n-late", main, "Rejected"),
        ("buried", "n-late", dlq, None),
        ("recorded", "n-late", None, "dlq"),
        ("replayed", "replay-1-n-late", main, None),
        ("recorded", "replay-1-n-late", None, "delivered"),
    ]
    assert {entry["error"] for entry in told["timeline"] if "error" in entry} == {"rejected with status 400"}


@pytest.mark.parametrize(("kept", "outcomes"), [("off", []), ("all", ["Delivered", "Refused", "Delivered"])])
async def test_what_is_kept_is_a_setting(site: Site, fleet: Fleet, kept: str, outcomes: list[str]) -> None:
    """Off writes none."""
    site.prepare(["firebase"])
    sender = fleet.sender(store={"attempts": kept})
    main = site.names.stage("firebase", "main")
    site.send([notification("fine")], main)
    await eventually(lambda: site.history.count("delivered") == 1)
    site.send([notification("fails", payload_json='{"mock": {"status": 503, "times": 1}}')], main)
    await eventually(lambda: site.history.count("delivered") == 2)
    await sender.stop()  # which writes what has not been written
    fleet.forget(sender)
    assert [outcome for _, outcome, _ in attempts(site)] == outcomes


async def test_a_timeline_that_cannot_be_written_holds_nothing_up(site: Site, fleet: Fleet) -> None:
    """Somebody has locked its table: rows are written, dead letters go, and the process stops in order."""
    site.prepare(["firebase"])
    main, dlq = (site.names.stage("firebase", name) for name in ("main", "dlq"))
    sender = fleet.sender()
    with psycopg.connect(site.database_url) as connection:
        connection.execute("LOCK TABLE delivery_attempts IN ACCESS EXCLUSIVE MODE")
        failing = [notification(number, payload_json='{"mock": {"status": 422}}') for number in range(20)]
        recovering = [notification(f"r{number}", payload_json=FAILS_TWICE) for number in range(20)]
        site.send([*failing, *recovering], main)
        await eventually(lambda: site.history.count("delivered") == 20, so_far=site.history.statuses)
        await eventually(lambda: site.count(dlq) == 20)
        await sender.stop()
    fleet.forget(sender)
    assert fleet.journal.of("Held") == []


async def test_where_there_is_nothing_it_says_so(site: Site, fleet: Fleet, programs: Programs) -> None:
    """Kafka has nothing, the database has nothing, neither has; and Kafka need not be asked."""
    site.prepare(["firebase"])
    code, text = programs.run("ringonce", "trace", "n-nobody")
    assert (code, text) == (1, "ringonce: nobody knows 'n-nobody': no topic and no row has anything about it\n")
    code, text = programs.run("ringonce", "trace", "n-nobody", "--no-kafka", KAFKA_BOOTSTRAP="127.0.0.1:1")
    assert (code, text) == (1, "ringonce: nobody knows 'n-nobody': the database has nothing about it\n")

    site.send([notification("waits")])
    told = traced(programs, "n-waits")
    assert [step for step, *_ in steps(told)] == ["entered"]
    assert len(told["notes"]) == 2
    assert "has not come to its end" in told["notes"][0]

    fleet.router(channels=("firebase",))
    fleet.sender()
    await eventually(lambda: site.history.count("delivered") == 1)
    told = traced(programs, "n-waits", "--no-kafka")
    assert [step for step, *_ in steps(told)] == ["recorded"]
    assert "Kafka was not asked" in told["notes"]
    with psycopg.connect(site.database_url) as connection:
        connection.execute("UPDATE notifications_log SET notification_id = 'n-gone', root_id = 'n-gone'")
    told = traced(programs, "n-gone")
    assert told["notes"][0] == "no topic holds a copy of it, or none any more"


async def test_a_record_without_an_id_is_found_by_the_one_it_was_given(
    site: Site, fleet: Fleet, programs: Programs
) -> None:
    """What stands in its row is what one has at hand."""
    site.prepare(["firebase"])
    fleet.router(channels=("firebase",))
    fleet.recorder(None)
    site.produce([Entry(b"\xff\xff no notification")])
    await eventually(lambda: site.history.count("dlq") == 1)
    [ident] = site.history.rows()
    assert steps(traced(programs, ident)) == [
        ("entered", ident, site.names.entry, None),
        ("buried", ident, site.names.entry_dlq, None),
        ("recorded", ident, None, "dlq"),
    ]


def test_servers_that_are_not_there_are_one_line(site: Site, programs: Programs) -> None:
    """Exit 4, with what to do; a schema that is not there is exit 3."""
    for command in (("trace", "n-1"), ("history", "--rows")):
        code, text = programs.run("ringonce", *command, DATABASE_URL="postgresql://nobody@127.0.0.1:1/x")
        assert (code, len(text.splitlines())) == (4, 1), text
        assert text.endswith("start it, or correct DATABASE_URL\n")
    site.make_database()
    for command in (("trace", "n-1"), ("history", "--json")):
        code, text = programs.run("ringonce", *command)
        assert code == 3
        assert "has no schema, or an older one; `ringonce db init` makes it" in text
    programs.run("ringonce", "db", "init")
    code, text = programs.run("ringonce", "trace", "n-1", KAFKA_BOOTSTRAP="127.0.0.1:1")
    assert (code, len(text.splitlines())) == (4, 1), text
    assert text.startswith("ringonce: Kafka at 127.0.0.1:1 is not reachable: ")
