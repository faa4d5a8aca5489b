"""Replays on real servers: interrupted, refused, repaired, and to the byte."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from tests.fixtures.rows import untruths
from tests.fixtures.site import Entry, headers_of, notification
from tests.fixtures.waiting import eventually

from ringonce.domain.notification import Channel
from ringonce.kafka.codec import encode
from ringonce.runtime.order import Order
from ringonce.runtime.selection import Rules, Selection, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fixtures.fleet import Fleet
    from tests.fixtures.program import Programs
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider

pytestmark = [pytest.mark.broker, pytest.mark.database]

DEAD: Final = (
    ("error.class", b"Refused"),
    ("error.status", b"503"),
    ("forward.reason", b"exhausted"),
    ("error.message", b"refused with status 503"),
)
CHANNELS: Final = {"firebase": Channel.FIREBASE, "apns": Channel.APNS, "webhook": Channel.WEBHOOK}


def bury(site: Site, count: int, *more: Entry, channel: str = "firebase") -> list[str]:
    """Dead letters as a sender leaves them, `more` after them; the ids of the first."""
    letters = [notification(number, CHANNELS[channel]) for number in range(count)]
    entries = [Entry(encode(each), each.user_id.encode(), DEAD) for each in letters]
    site.produce([*entries, *more], site.names.stage(channel, "dlq"))
    return [each.id for each in letters]


def named(site: Site) -> dict[str, Any]:
    """The one row of the table of named replays."""
    with psycopg.connect(site.database_url, row_factory=psycopg.rows.dict_row) as connection:
        [row] = connection.execute("SELECT * FROM replays").fetchall()
    return row


async def test_a_killed_replay_of_a_thousand_goes_on_and_each_is_sent_once(
    site: Site, fleet: Fleet, programs: Programs, providers: Mapping[str, MockProvider]
) -> None:
    """Kill -9 amid its second batch; the same command ends it, and once more says that it has ended."""
    site.prepare(["firebase"])
    firebase = providers["firebase"]
    firebase.chaos(STATUS=400)
    fleet.sender()
    fleet.recorder()
    ids = site.send([notification(number) for number in range(1000)], site.names.stage("firebase", "main"))
    await eventually(lambda: site.history.count("dlq") == 1000, 60.0, so_far=site.history.statuses)
    firebase.chaos(reset=True)

    command = ("ringonce", "replay", "--channel", "firebase", "--name", "night", "--rate", "400")
    code, text = programs.run(*command, RINGONCE_CRASH_AT="after_publish:500", RINGONCE_TESTING="1")
    assert code == -signal.SIGKILL, text
    row = named(site)
    assert (row["published"], row["finished_at"]) == (400, None)
    assert sum(row["positions"].values()) == 400

    code, text = programs.run(*command)
    assert code == 0, text
    row = named(site)
    assert row["published"] + row["skipped"].get("delivered", 0) == 1000
    assert row["finished_at"] is not None
    assert row["positions"] == row["ends"]
    assert sum(site.committed("firebase-replay-night").values()) == 1000
    await eventually(lambda: site.history.count("delivered") == 1000, so_far=site.history.statuses)
    await eventually(lambda: site.committed("firebase-sender").items() >= ends(site, "notification-firebase").items())
    assert sorted(act.key for act in firebase.acts()) == sorted(ids)
    assert {row["replay_of"] for row in site.history.rows().values() if row["status"] == "delivered"} == set(ids)
    assert untruths(site.history.rows(), ids, [firebase]) == []

    code, text = programs.run(*command)
    assert (code, "'night' has finished already: replayed " in text) == (0, True), text
    code, text = programs.run(*command, "--limit", "5")
    assert (code, "begun with another choice of limit" in text) == (3, True), text


def ends(site: Site, topic: str) -> dict[tuple[str, int], int]:
    """Where a topic ends, in the form of a group's offsets."""
    return {(topic, number): end for number, end in site.ends(f"{site.prefix}{topic}").items()}


def reaches(site: Site, topic: str, count: int) -> bool:
    """Whether so many records have come to a topic."""
    return site.count(topic) == count


async def test_a_record_that_nobody_takes_stops_at_the_guard(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """Replayed five times: three go, of all its dead letters the latest each time, and two are refused."""
    site.prepare(["firebase"], partitions=1)
    providers["firebase"].chaos(STATUS=400)
    fleet.sender()
    fleet.recorder()
    site.send([notification("bad")], site.names.stage("firebase", "main"))
    order = Order(Selection(ids=frozenset({"n-bad"})))
    seen = []
    dlq = site.names.stage("firebase", "dlq")
    for turn in range(5):
        dead = min(turn, 3) + 1
        await eventually(partial(reaches, site, dlq, dead))
        done = await fleet.replay("firebase", order)
        seen.append((done.published, done.verdicts[Verdict.SUPERSEDED], done.verdicts[Verdict.GUARD]))
    assert seen == [(1, 0, 0), (1, 1, 0), (1, 2, 0), (0, 3, 1), (0, 3, 1)]
    await eventually(lambda: site.history.count("dlq") == 4)
    assert set(site.history.rows()) == {"n-bad", *(f"replay-{count}-n-bad" for count in (1, 2, 3))}
    assert {act.key for act in providers["firebase"].calls()} == {"n-bad"}
    done = await fleet.replay("firebase", Order(order.selection, Rules(max_replays=4)))
    assert done.published == 1


async def test_what_was_delivered_meanwhile_is_skipped(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """By whatever way: by an earlier replay, or by a copy that came around the DLQ."""
    site.prepare(["firebase"])
    ids = bury(site, 6)
    fleet.sender()
    await fleet.replay("firebase", Order(Selection(ids=frozenset(ids[:2]))))
    site.send([notification(2)], site.names.stage("firebase", "main"))
    await eventually(lambda: site.history.count("delivered") == 3, so_far=site.history.statuses)
    done = await fleet.replay("firebase")
    assert (done.published, done.verdicts) == (3, {Verdict.DELIVERED: 3, Verdict.UNPUBLISHABLE: 0})
    await eventually(lambda: site.history.count("delivered") == 6, so_far=site.history.statuses)
    assert sorted(act.key for act in providers["firebase"].acts()) == sorted(ids)


async def test_each_channels_letters_go_back_to_its_own_topic_byte_for_byte(site: Site, fleet: Fleet) -> None:
    """Value, key, origin and foreign headers; fields that nobody knows and in an order that nobody writes."""
    site.prepare()
    foreign = (("tenant", b"\x00\xff"), ("tenant", b"twice"), ("nothing", None), ("origin", b"e/0/7/8"))
    for name, channel in CHANNELS.items():
        odd = b"\xf2\x3f\x03abc" + encode(notification(name, channel)) + b"\x12\x01u"
        bury(site, 3, Entry(odd, b"\x00key\xff", (*foreign, *DEAD)), channel=name)
    for name in CHANNELS:
        assert (await fleet.replay(name)).published == 4
    for name in CHANNELS:
        dead, back = (site.records(site.names.stage(name, stage)) for stage in ("dlq", "main"))
        assert sorted((each.value() or b"", each.key() or b"") for each in back) == sorted(
            (each.value() or b"", each.key() or b"") for each in dead
        )
        [odd_one] = [each for each in back if each.key() == b"\x00key\xff"]
        assert [header for header in headers_of(odd_one) if header[0] in dict(foreign) and header[0] != "origin"] == [
            *foreign[:3]
        ]
        assert dict(headers_of(odd_one))["origin"] == b"e/0/7/8"
        assert dict(headers_of(odd_one))["notification.id"] == f"replay-1-n-{name}".encode()
        assert "error.class" not in dict(headers_of(odd_one))
    [_, _, retry] = [site.names.stage("apns", stage) for stage in ("main", "retry-30s", "retry-5m")]
    await fleet.replay("apns", Order(Selection(ids=frozenset({"n-apns"})), to="retry-5m"))
    assert [each.key() for each in site.records(retry)] == [b"\x00key\xff"]


async def test_the_routers_dead_letters_are_repaired_and_delivered(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """Those without a channel; the channel is all that changes, and the router's own row stays."""
    site.prepare(["firebase"], partitions=1)
    fleet.router(channels=("firebase",))
    fleet.recorder(None)
    lost = encode(notification("lost", Channel.UNSPECIFIED)) + b"\xf2\x3f\x03abc"
    places = site.produce([Entry(lost, b"k"), Entry(encode(notification("mail", Channel.EMAIL))), Entry(b"\xff")])
    await eventually(lambda: site.history.count("dlq") == 3, so_far=site.history.statuses)

    order = Order(rules=Rules(fix=Channel.FIREBASE))
    done = await fleet.replay("firebase", order)
    assert (done.published, done.verdicts[Verdict.UNFIT]) == (1, 2)
    fleet.sender()
    await eventually(lambda: site.history.count("delivered") == 1, so_far=site.history.statuses)
    [record] = site.records(site.names.stage("firebase", "main"))
    headers = dict(headers_of(record))
    assert (record.value() or b"").startswith(lost)
    assert record.key() == b"k"
    assert headers["origin"] == f"{places[0].topic}/0/{places[0].offset}/{places[0].timestamp_ms}".encode()
    assert headers["channel"] == b"CHANNEL_FIREBASE"
    rows = site.history.rows()
    assert (rows["n-lost"]["channel"], rows["n-lost"]["status"]) == ("", "dlq")
    assert (rows["replay-1-n-lost"]["channel"], rows["replay-1-n-lost"]["replay_of"]) == ("firebase", "n-lost")
    assert [act.key for act in providers["firebase"].acts()] == ["n-lost"]
    done = await fleet.replay("firebase", order)
    assert (done.published, done.verdicts[Verdict.DELIVERED]) == (0, 1)


async def test_an_interrupted_replay_says_how_far_it_got_and_goes_on(site: Site, programs: Programs) -> None:
    """Ctrl-C: what is published is kept, and nothing is published twice."""
    site.prepare(["firebase"])
    bury(site, 300)
    main = site.names.stage("firebase", "main")
    slow = programs.start("ringonce", "replay", "--channel", "firebase", "--rate", "40")
    await eventually(lambda: site.count(main) > 20)
    slow.send(signal.SIGINT)
    assert slow.wait() == 5
    done = site.count(main)
    assert 20 < done < 300
    said = slow.text().splitlines()[-1]
    assert said.startswith(f"ringonce: interrupted after {done} of 300: replayed {done}, skipped 0; the same command")
    assert programs.run("ringonce", "replay", "--channel", "firebase")[1].splitlines()[-1] == (
        f"replayed {300 - done}, skipped 0"
    )
    assert site.count(main) == 300


async def test_two_processes_do_not_carry_out_one_replay(site: Site, programs: Programs) -> None:
    """The second is told so; the first goes on."""
    site.prepare(["firebase"])
    bury(site, 100)
    command = ("ringonce", "replay", "--channel", "firebase", "--name", "n", "--rate", "2")
    first = programs.start(*command)
    await eventually(lambda: site.count(site.names.stage("firebase", "main")) > 0)
    code, text = programs.run(*command)
    assert (code, "the replay 'n' of firebase is running already" in text) == (1, True), text
    assert first.running


async def test_looking_changes_nothing(site: Site, programs: Programs) -> None:
    """Counts, one letter, and a dry run that says what the replay then does."""
    site.prepare(["firebase"], partitions=1)
    private = notification("private", user_id="CANARY", title="CANARY", body="CANARY", payload_json="CANARY")
    maybe = Entry(encode(notification("maybe")), headers=(*DEAD, ("maybe.reached", b"true")))
    bury(site, 3, Entry(encode(private), b"CANARY", DEAD), Entry(b"\xff CANARY", None, DEAD), maybe)

    code, text = programs.run("ringonce", "dlq", "ls", "--channel", "firebase")
    lines = text.splitlines()
    assert (code, lines[-2].split()) == (0, ["Refused", "exhausted", "503", "6", "0", "0", "0", "6"]), text
    assert lines[-1] == "6 in the DLQ of firebase: 1 undecodable, 1 may have reached the provider"
    code, text = programs.run("ringonce", "dlq", "show", "n-private", "--channel", "firebase")
    assert (code, "CANARY" in text, "*** (6 characters" in text) == (0, False, True), text
    code, text = programs.run("ringonce", "dlq", "show", "firebase:0:3", "--reveal")
    assert (code, text.count("CANARY")) == (0, 5), text
    code, text = programs.run("ringonce", "dlq", "show", "firebase:0:4")
    assert (code, "cannot be decoded" in text, "CANARY" in text) == (0, True, False), text

    replay = ("ringonce", "replay", "--channel", "firebase")
    counted = "4, skip{} 2: 1 not deliverable as they are, 1 may have reached the provider (--include-maybe-reached)"
    for _ in range(2):
        code, text = programs.run(*replay, "--dry-run")
        assert (code, text.splitlines()[-1]) == (0, f"would replay {counted.format('')}"), text
    assert site.count(site.names.stage("firebase", "main")) == 0
    assert site.committed("firebase-replay") == {}
    code, text = programs.run(*replay)
    assert (code, text.splitlines()[-1]) == (0, f"replayed {counted.format('ped')}"), text
    code, text = programs.run(*replay)
    assert (code, text.splitlines()[-1]) == (0, "nothing to replay in the DLQ of firebase since the last replay")
    code, text = programs.run(*replay, "--include-maybe-reached", "--user", "user-maybe")
    assert (code, text.splitlines()[-1]) == (0, "replayed 1, skipped 0"), text


async def test_what_is_asked_in_vain(site: Site, programs: Programs) -> None:
    """One clear line and an exit code that means something; never a traceback."""
    site.prepare(["firebase"], partitions=1)
    away = {"KAFKA_BOOTSTRAP": "127.0.0.1:1"}
    for code, said, command, environment in (
        (0, "the DLQ of firebase is empty", ("dlq", "ls", "--channel", "firebase"), {}),
        (0, "nothing to replay in the DLQ of firebase since", ("replay", "--channel", "firebase"), {}),
        (0, "would replay 0, skip 0", ("replay", "--channel", "firebase", "--dry-run"), {}),
        (1, "there is no dead letter n-1 in the DLQ of", ("dlq", "show", "n-1", "--channel", "firebase"), {}),
        (1, "there is no dead letter firebase:0:7 in", ("dlq", "show", "firebase:0:7"), {}),
        (1, "there is no dead letter firebase:9:0 in", ("dlq", "show", "firebase:9:0"), {}),
        (3, "notification-apns-dlq: does not exist", ("dlq", "ls", "--channel", "apns"), {}),
        (3, "firebase has no stage 'dlq' to replay to", ("replay", "--channel", "firebase", "--to", "dlq"), {}),
        (4, "Kafka at 127.0.0.1:1 is not reachable", ("dlq", "ls", "--channel", "firebase"), away),
        (4, "Kafka at 127.0.0.1:1 is not reachable", ("replay", "--channel", "firebase"), away),
        (
            4,
            "PostgreSQL at postgresql://127.0.0.1:1/x is not reachable",
            ("replay", "--channel", "firebase"),
            {"DATABASE_URL": "postgresql://127.0.0.1:1/x"},
        ),
    ):
        found, text = programs.run("ringonce", *command, **environment)
        assert (found, said in text, "Traceback" in text) == (code, True, False), (command, text)
