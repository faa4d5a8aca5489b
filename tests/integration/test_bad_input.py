"""Records that nobody should have produced: each ends in exactly one terminal row, and none stops its partition."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from tests.fixtures.site import Entry, headers_of, notification
from tests.fixtures.waiting import eventually

from ringonce.domain.notification import Channel, Instant, Notification
from ringonce.kafka.codec import encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fixtures.fleet import Fleet
    from tests.fixtures.site import Placed, Site

    from ringonce.mock.thread import MockProvider

pytestmark = [pytest.mark.broker, pytest.mark.database]

GOOD: Final = encode(notification("good", id="n-good"))
NOT_UTF8: Final = b"\x0a\x02\xff\xfe"
"""A protobuf whose first field, the id, is a string that is not UTF-8."""
LONE_SURROGATE: Final = r'{"text": "\ud800"}'


class Case(NamedTuple):
    """A record that enters, and where it has to end.

    `id` is that of its row; None stands for the synthetic one, of a record that brought no valid id.
    """

    what: str
    entry: Entry
    channel: str
    status: str
    id: str | None = None


def dead(what: str, value: bytes | None, channel: str = "") -> Case:
    return Case(what, Entry(value), channel, "dlq")


def bad_id(what: str, text: str) -> Case:
    return dead(what, encode(notification("", id=text)), "firebase")


def fine(what: str, **fields: Any) -> Case:
    name = f"n-{what.replace(' ', '-')}"
    return Case(
        what, Entry(encode(notification("", **{"id": name, "user_id": "u", **fields}))), "firebase", "delivered", name
    )


def webhook(what: str, target: str) -> Case:
    name = f"n-{what.replace(' ', '-')}"
    value = encode(notification("", Channel.WEBHOOK, id=name, target=target))
    return Case(what, Entry(value), "webhook", "dlq", name)


def unrouted(what: str, channel: int) -> Case:
    name = f"n-{what.replace(' ', '-')}"
    value = encode(Notification(name, channel=channel))
    return Case(what, Entry(value), "", "dlq", name)


CASES: Final = (
    dead("tombstone", None),
    dead("nothing", b""),
    dead("random bytes", hashlib.sha256(b"noise").digest() * 8),
    dead("truncated", GOOD[:-3]),
    dead("a string that is not UTF-8", NOT_UTF8),
    dead("groups nested too deeply", b"\xa3\x06" * 2000 + b"\xa4\x06" * 2000),
    unrouted("unset channel", 0),
    unrouted("unknown channel", 99),
    unrouted("unconfigured channel", Channel.NTFY),
    bad_id("empty id", ""),
    bad_id("id of 3000 characters", "x" * 3000),
    bad_id("id with a blank", "a b"),
    bad_id("id with a NUL", "a\0b"),
    bad_id("id beyond ASCII", "né"),
    bad_id("id like a replay's", "replay-1-n-good"),
    dead("time out of range", GOOD + b"\x42\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "firebase"),
    Case(
        "expired",
        Entry(encode(notification("", id="n-expired", expires_at=Instant(1)))),
        "firebase",
        "expired",
        "n-expired",
    ),
    webhook("target no URL", "not a URL"),
    webhook("target no http", "ftp://127.0.0.1/send"),
    webhook("target with a bad port", "http://127.0.0.1:99999/send"),
    webhook("target not allowed", "http://127.0.0.2:9/send"),
    fine("NUL in the body", body="a\0b"),
    fine("emoji in the body", body="🔔" * 100),
    fine("lone surrogate in the payload", payload_json=LONE_SURROGATE),
    fine("payload that is no JSON", payload_json="{"),
    fine("NUL in the user", user_id="u\0v"),
    fine("NUL in the trace", trace_id="t\0"),
    fine("unknown priority", priority=77),
    Case(
        "headers of all kinds",
        Entry(
            encode(notification("", id="n-headers")),
            headers=(
                ("not utf-8", b"\xff\xfe"),
                ("none", None),
                ("empty", b""),
                ("attempts", b"\xff"),
                ("retry.count", b"-1"),
                ("deferred.since", b"9" * 40),
                ("notification.id", b"replay-1-n-headers"),
                ("replay.of", None),
                ("maybe.reached", b"maybe"),
                ("traceparent", b"\r\nX-Evil: 1"),
            ),
        ),
        "firebase",
        "delivered",
        "n-headers",
    ),
)


def synthetic(place: Placed, value: bytes | None) -> str:
    digest = hashlib.sha256(value or b"").hexdigest()[:8]
    return f"{place.topic}/{place.partition}/{place.offset}/{place.timestamp_ms}-{digest}"


async def test_each_record_ends_in_one_row_and_stops_nobody(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """All of them in one partition, a good record after each: one row each, and every good record is delivered."""
    site.prepare(partitions=1)
    fleet.router()
    fleet.recorder(None)
    for name in providers:
        fleet.sender(name)
        fleet.recorder(name)
    entries = []
    for number, case in enumerate(CASES):
        entries += [case.entry, Entry(encode(notification(f"after-{number}")))]
    places = site.produce(entries)
    bad_places = places[::2]

    expected = {
        case.id or synthetic(place, case.entry.value): (case.channel, case.status)
        for case, place in zip(CASES, bad_places, strict=True)
    } | {f"n-after-{number}": ("firebase", "delivered") for number in range(len(CASES))}
    await eventually(lambda: site.history.count() >= 2 * len(CASES), so_far=site.history.statuses)
    rows = site.history.rows()
    assert {name: (row["channel"], row["status"]) for name, row in rows.items()} == expected
    assert all(row["last_error"] for row in rows.values() if row["status"] == "dlq")

    # What the database refuses in a value does not keep the row out.
    assert rows["n-NUL-in-the-user"]["user_id"] is None
    assert rows["n-emoji-in-the-body"]["user_id"] == "u"
    delivered = {name for name, row in rows.items() if row["status"] == "delivered"}
    assert {act.key for provider in providers.values() for act in provider.calls()} == delivered


async def test_what_comes_to_a_channel_around_the_router_gets_its_row_as_well(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """The sender meets what the router would have stopped: garbage, and payloads that name another channel."""
    site.prepare(["firebase"], partitions=1)
    fleet.sender()
    fleet.recorder()
    main = site.names.stage("firebase", "main")
    values = [None, b"\xff\xff", encode(notification("", Channel.APNS, id="n-elsewhere")), encode(notification("fine"))]
    places = site.produce([Entry(value) for value in values], main)
    await eventually(lambda: site.history.count() >= 4, so_far=site.history.statuses)
    rows = site.history.rows()
    assert {name: (row["channel"], row["status"]) for name, row in rows.items()} == {
        **{synthetic(place, value): ("firebase", "dlq") for place, value in zip(places[:3], values[:3], strict=True)},
        "n-fine": ("firebase", "delivered"),
    }
    assert [act.key for act in providers["firebase"].calls()] == ["n-fine"]


async def test_a_record_whose_forward_is_too_large_ends_as_a_row(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """The retry topic takes less than it should: the sender writes the row that the record cannot travel to."""
    site.prepare(["firebase"], partitions=1)
    firebase = providers["firebase"]
    fleet.sender(max_attempts=1)
    first = site.send([notification("first")], site.names.stage("firebase", "main"))
    await eventually(lambda: site.history.unrecorded(first) == set())
    site.shrink(site.names.stage("firebase", "retry-30s"), 20_000)
    firebase.chaos(STATUS=503, RETRY_AFTER="")
    site.send([notification("large", body="x" * 50_000)], site.names.stage("firebase", "main"))
    await eventually(lambda: site.history.count() == 2, so_far=site.history.statuses)
    firebase.chaos(reset=True)
    after = site.send([notification("after")], site.names.stage("firebase", "main"))
    await eventually(lambda: site.history.unrecorded(after) == set())

    rows = site.history.rows()
    assert {name: row["status"] for name, row in rows.items()} == {
        "n-first": "delivered",
        "n-large": "dlq",
        "n-after": "delivered",
    }
    assert rows["n-large"]["last_error"].startswith("unpublishable")
    assert rows["n-large"]["attempts"] == 1


async def test_a_record_that_the_router_cannot_forward_is_buried_without_its_value(site: Site, fleet: Fleet) -> None:
    """A channel's topic takes less than it should: the router's DLQ gets the headers, and the history the id."""
    site.prepare(["firebase"], partitions=1)
    fleet.router(channels=("firebase",))
    fleet.recorder(None)
    await eventually(lambda: site.members("notification-router"))
    site.shrink(site.names.stage("firebase", "main"), 20_000)
    large = encode(notification("large", body="x" * 50_000))
    [place] = site.produce([Entry(large, b"key")])
    await eventually(lambda: site.history.count() == 1)
    row = site.history.rows()["n-large"]
    assert (row["channel"], row["status"], row["root_id"]) == ("", "dlq", "n-large")
    assert row["last_error"].startswith("unpublishable")

    [buried] = site.records(site.names.entry_dlq)
    headers = dict(headers_of(buried))
    assert buried.value() is None
    assert headers["root.id"] == b"n-large"
    assert headers["value.size"] == str(len(large)).encode()
    assert headers["value.sha256"] == hashlib.sha256(large).hexdigest().encode()
    assert headers["origin"] == f"{place.topic}/0/0/{place.timestamp_ms}".encode()
    assert site.count(site.names.stage("firebase", "main")) == 0


async def test_what_expires_while_it_waits_is_not_sent(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """No later stage is due before it expires: it is tried again until then, and never after."""
    site.prepare(["firebase"], partitions=1)
    firebase = providers["firebase"]
    firebase.chaos(STATUS=503, RETRY_AFTER="")
    fleet.sender(max_attempts=1, delays={"retry-30s": 60.0})
    await eventually(lambda: any(site.members("firebase-sender").values()))
    expires_at = int(time.time()) + 8
    short = notification("short", expires_at=Instant(expires_at))
    site.send([short], site.names.stage("firebase", "main"))
    await eventually(lambda: site.history.count() == 1)
    row = site.history.rows()["n-short"]
    assert row["status"] == "expired"
    assert row["attempts"] == len(firebase.calls()) >= 2
    assert all(call.wall < expires_at for call in firebase.calls())
    assert site.count(site.names.stage("firebase", "retry-30s")) == 0
