"""Who a record is: the same notification twice, and bytes that pass through every topic unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from tests.fixtures.rows import untruths
from tests.fixtures.site import Entry, headers_of, notification
from tests.fixtures.waiting import eventually

from ringonce.kafka.codec import encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fixtures.fleet import Fleet
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider

pytestmark = [pytest.mark.broker, pytest.mark.database]

TRACEPARENT: Final = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FOREIGN: Final = (
    ("tenant", b"\x00\xff binary"),
    ("tenant", b"twice"),
    ("nothing", None),
    ("empty", b""),
    ("traceparent", TRACEPARENT),
)
"""Headers of a producer's own, in their order: they stay as they are."""
FORGED: Final = (
    ("origin", b"somewhere/0/0/0"),
    ("attempts", b"40"),
    ("retry.count", b"7"),
    ("maybe.reached", b"true"),
    ("notification.id", b"replay-1-n-same"),
    ("replay.of", b"n-same"),
    ("replay.count", b"1"),
    ("idempotency.key", b"stolen"),
    ("error.message", b"planted"),
    ("channel", b"CHANNEL_APNS"),
    ("router-node", b"nobody"),
    ("root.id", b"n-other"),
)
"""Headers that only the product sets: from outside they are removed."""
OURS: Final = frozenset(name for name, _ in FORGED)


async def test_the_same_notification_twice_is_one_row_and_one_act(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """Copies in one partition, in two partitions, with another body, and once more when all is over."""
    site.prepare(["firebase"], partitions=2)
    firebase = providers["firebase"]
    firebase.chaos(LATENCY_MS=30)
    main = site.names.stage("firebase", "main")
    plain = [notification(number) for number in range(30)]
    other = [each._replace(body="another body") for each in plain]
    for partition in (0, 1):
        site.produce([Entry(encode(each)) for pair in zip(plain, other, strict=True) for each in pair], main, partition)
    fleet.sender(max_in_flight=16)
    await eventually(lambda: site.history.count() == 30)
    site.produce([Entry(encode(each)) for each in plain], main)
    last = site.send([notification("last")], main)
    await eventually(lambda: site.history.unrecorded(last) == set())
    await eventually(lambda: sum(site.committed("firebase-sender").values()) == 151)
    ids = [*(each.id for each in plain), *last]
    assert sorted(act.key for act in firebase.calls()) == sorted(ids)
    assert site.history.statuses() == {"delivered": 31}
    assert untruths(site.history.rows(), ids, [firebase]) == []


async def test_two_senders_with_a_copy_each_act_under_one_key_and_write_one_row(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """Across processes a copy may be sent while the first is in flight: a receiver that honours keys acts once."""
    site.prepare(["firebase"], partitions=2)
    firebase = providers["firebase"]
    firebase.chaos(DEDUP=True, LATENCY_MS=30)
    main = site.names.stage("firebase", "main")
    fleet.sender(node="one")
    fleet.sender(node="two")
    await eventually(lambda: len(site.members("firebase-sender")) == 2)
    plain = [notification(number) for number in range(40)]
    for partition in (0, 1):
        site.produce([Entry(encode(each)) for each in plain], main, partition)
    await eventually(lambda: sum(site.committed("firebase-sender").values()) == 80)
    assert sorted(act.key for act in firebase.acts()) == sorted(each.id for each in plain)
    assert site.history.statuses() == {"delivered": 40}


async def test_bytes_in_are_bytes_out(site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]) -> None:
    """Value, key and foreign headers are the same in every topic that a record passes, replay included."""
    site.prepare(["firebase"], partitions=1)
    firebase = providers["firebase"]
    firebase.chaos(STATUS=503, RETRY_AFTER="")
    fleet.router(channels=("firebase",))
    fleet.sender(max_attempts=1)
    fleet.recorder()
    # An unknown field and fields out of order: whoever decodes and encodes again gives himself away.
    value = b"\xf2\x3f\x03abc" + encode(notification("same", user_id="")) + b"\x12\x01u"
    [place] = site.produce([Entry(value, b"\x00key\xff", (*FORGED, *FOREIGN))])
    await eventually(lambda: site.history.count("dlq") == 1)
    firebase.chaos(reset=True)
    assert (await fleet.replay("firebase")).published == 1
    await eventually(lambda: site.history.count("delivered") == 1)

    topics = [site.names.stage("firebase", stage) for stage in ("main", "retry-30s", "retry-5m", "dlq")]
    passed = {topic: site.records(topic) for topic in topics}
    assert [len(records) for records in passed.values()] == [2, 1, 1, 1]
    for record in (record for records in passed.values() for record in records):
        headers = headers_of(record)
        assert (record.value(), record.key()) == (value, b"\x00key\xff")
        assert [header for header in headers if header[0] in dict(FOREIGN)] == list(FOREIGN)
        assert len({name for name, _ in headers if name in OURS}) == sum(name in OURS for name, _ in headers)
        assert dict(headers)["origin"] == f"{place.topic}/0/0/{place.timestamp_ms}".encode()

    entered, replayed = (dict(headers_of(record)) for record in passed[topics[0]])
    assert {name: entered.get(name) for name in OURS} == {
        **dict.fromkeys(OURS),
        "origin": entered["origin"],
        "channel": b"CHANNEL_FIREBASE",
        "router-node": b"router",
    }
    assert passed[topics[0]][0].timestamp()[1] == place.timestamp_ms
    in_dlq = dict(headers_of(passed[topics[3]][0]))
    assert (in_dlq["attempts"], in_dlq["retry.count"], in_dlq["forward.reason"]) == (b"3", b"3", b"exhausted")
    assert in_dlq["original.topic"] == topics[0].encode()
    assert in_dlq["previous.topic"] == topics[2].encode()
    assert replayed["notification.id"] == b"replay-1-n-same"
    assert not {"attempts", "retry.count", "error.message", "forward.reason"} & set(replayed)

    rows = site.history.rows()
    assert (rows["n-same"]["status"], rows["replay-1-n-same"]["status"]) == ("dlq", "delivered")
    assert rows["replay-1-n-same"]["replay_of"] == rows["replay-1-n-same"]["root_id"] == "n-same"
    assert [act.key for act in firebase.acts()] == ["n-same"]
    assert {("firebase-sender", "n-same"), ("firebase-sender", "replay-1-n-same")} <= site.history.gate()


async def test_a_replay_that_was_delivered_closes_the_gate_for_its_original(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """A copy of the original that comes late, after its replay has been delivered, is not sent again."""
    site.prepare(["firebase"], partitions=1)
    firebase = providers["firebase"]
    main = site.names.stage("firebase", "main")
    firebase.chaos(STATUS=400)
    fleet.sender()
    fleet.recorder()
    original = notification("late")
    site.send([original], main)
    await eventually(lambda: site.history.count("dlq") == 1)
    firebase.chaos(reset=True)
    await fleet.replay("firebase")
    await eventually(lambda: site.history.count("delivered") == 1)
    site.send([original, notification("after")], main)
    await eventually(lambda: sum(site.committed("firebase-sender").values()) == 4)
    assert [act.key for act in firebase.acts()] == ["n-late", "n-after"]
    assert (await fleet.replay("firebase")).published == 0, "each dead letter is replayed once"


@pytest.mark.embedded
@pytest.mark.parametrize("client", ["pyreqwest", "httpx"])
@pytest.mark.parametrize("body", ["json", "protobuf"])
async def test_either_client_sends_either_body_signed_and_keyed(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider], client: str, body: str
) -> None:
    """The provider checks every signature; a refusal, a rejection and a delivery are told apart."""
    site.prepare(["firebase"], partitions=1)
    firebase = providers["firebase"]
    fleet.sender(http_client=client, body=body)
    fleet.recorder()
    main = site.names.stage("firebase", "main")
    ids = site.send([notification(number, body="Grüße 🔔") for number in range(20)], main)
    await eventually(lambda: site.history.count("delivered") == 20)
    firebase.chaos(STATUS=400)
    refused = site.send([notification("rejected")], main)
    await eventually(lambda: site.history.count("dlq") == 1)
    assert sorted(act.key for act in firebase.acts()) == sorted(ids)
    assert site.history.rows()["n-rejected"]["http_status"] == 400
    assert firebase.stats()["bad_signatures"] == 0
    assert untruths(site.history.rows(), [*ids, *refused], [firebase]) == []
