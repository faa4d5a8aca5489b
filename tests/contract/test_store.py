"""What every store promises: the one on a real PostgreSQL and the one in memory that other tests use."""

from __future__ import annotations

import asyncio
import os
from itertools import count, product
from typing import TYPE_CHECKING, Any, Protocol

import psycopg
import pytest
import pytest_asyncio
from psycopg.rows import dict_row
from tests.fakes.samples import row
from tests.fakes.store import MemoryStore

from ringonce.domain.disposition import Status
from ringonce.runtime.recorder import fold
from ringonce.store.port import AttemptRow, Gate, RowsRefused
from ringonce.store.postgres import PostgresStore
from ringonce.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ringonce.stand.postgres import PostgresServer
    from ringonce.store.port import HistoryRow, Store

GATE = Gate("firebase-sender", "node-1")
OTHER = Gate("firebase-sender", "node-2")


class Ledger(Protocol):
    """A store, and a look at what is in it."""

    @property
    def store(self) -> Store:
        """Under test."""
        ...

    def row(self, ident: str, channel: str = "firebase") -> dict[str, Any] | None:
        """A history row by its columns."""
        ...

    def gates(self) -> dict[tuple[str, str], str]:
        """The owner of each gate row, by consumer and id."""
        ...

    def attempts(self) -> list[tuple[str, AttemptRow]]:
        """Node and row of every attempt, sorted."""
        ...

    def another(self) -> Store:
        """Another process's store on the same rows."""
        ...


class InMemory:
    """The fake."""

    def __init__(self) -> None:
        self.store = MemoryStore()

    def row(self, ident: str, channel: str = "firebase") -> dict[str, Any] | None:
        """See `Ledger.row`."""
        found = self.store.rows.get((ident, channel))
        return None if found is None else found._asdict()

    def gates(self) -> dict[tuple[str, str], str]:
        """See `Ledger.gates`."""
        return dict(self.store.gates)

    def attempts(self) -> list[tuple[str, AttemptRow]]:
        """See `Ledger.attempts`."""
        return sorted(((node, row) for (_, _, node), row in self.store.attempts.items()), key=str)

    def another(self) -> Store:
        """See `Ledger.another`."""
        return self.store


class OnPostgres:
    """The real one."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.store = PostgresStore(url)
        self.others: list[PostgresStore] = []

    def ask(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        """Another connection's look."""
        with psycopg.connect(self._url, row_factory=dict_row) as connection:
            return connection.execute(query, parameters).fetchall()

    def row(self, ident: str, channel: str = "firebase") -> dict[str, Any] | None:
        """See `Ledger.row`."""
        query = "SELECT * FROM notifications_log WHERE notification_id = %s AND channel = %s"
        return next(iter(self.ask(query, ident, channel)), None)

    def gates(self) -> dict[tuple[str, str], str]:
        """See `Ledger.gates`."""
        rows = self.ask("SELECT consumer, notification_id, owner FROM processed_events")
        return {(found["consumer"], found["notification_id"]): found["owner"] for found in rows}

    def attempts(self) -> list[tuple[str, AttemptRow]]:
        """See `Ledger.attempts`."""
        rows = self.ask("SELECT * FROM delivery_attempts")
        found = []
        for columns_ in rows:
            node, at = columns_.pop("node"), columns_.pop("attempted_at")
            found.append((node, AttemptRow(attempted_at=at.timestamp(), **columns_)))
        return sorted(found, key=str)

    def another(self) -> Store:
        """See `Ledger.another`."""
        self.others.append(PostgresStore(self._url))
        return self.others[-1]

    async def close(self) -> None:
        """Give all connections back."""
        for store in (self.store, *self.others):
            await store.close()


_numbers = count()


def fresh_database(server: PostgresServer) -> str:
    """The URL of a new database with the schema."""
    name = f"store_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server.superuser_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} OWNER ringonce")
    url = server.url.rpartition("/")[0] + f"/{name}"
    migrate(url)
    return url


@pytest.fixture(scope="module")
def database(request: pytest.FixtureRequest) -> str:
    """One database for the tests of this module."""
    return fresh_database(request.getfixturevalue("postgres"))


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.database)])
def kind(request: pytest.FixtureRequest) -> str:
    """Which store."""
    return str(request.param)


@pytest_asyncio.fixture
async def ledger(kind: str, request: pytest.FixtureRequest) -> AsyncIterator[Ledger]:
    """An empty one of that kind."""
    if kind == "memory":
        yield InMemory()
        return
    one = OnPostgres(request.getfixturevalue("database"))
    with psycopg.connect(request.getfixturevalue("database")) as connection:
        connection.execute("TRUNCATE notifications_log, processed_events, delivery_attempts")
    await one.store.open()
    yield one
    await one.close()


def columns(one: HistoryRow) -> dict[str, Any]:
    """What a row says, but for times, which each store shows in its own way."""
    return {name: value for name, value in one._asdict().items() if not name.endswith("_at")}


async def test_a_row_is_written_with_all_it_says(ledger: Ledger) -> None:
    """And its gate row with it."""
    full = row(
        "a",
        Status.DLQ,
        root_id="r",
        attempts=3,
        user_id="ü😀",
        last_error="e",
        sent_at=1_700_000_000.5,
        http_status=503,
        stage="retry-30s",
        trace_id="t",
        event_key="k",
        replay_of="r",
        maybe_reached=True,
        created_at="2023-11-14T22:13:20.123456Z",
        expires_at="0001-01-01T00:00:00Z",
    )
    await ledger.store.record(GATE, [full])
    found = ledger.row("a")
    assert found is not None
    assert {name: found[name] for name in columns(full)} == columns(full)
    assert ledger.gates() == {("firebase-sender", "a"): "node-1"}


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.9Z"])
async def test_every_time_that_a_notification_can_hold_can_be_stored(ledger: Ledger, moment: str) -> None:
    """The ends of the range included."""
    await ledger.store.record(GATE, [row("a", created_at=moment, expires_at=moment)])
    assert ledger.row("a") is not None


@pytest.mark.parametrize(("before", "after"), list(product(Status, Status)), ids=lambda status: str(status.value))
async def test_which_row_stays(ledger: Ledger, before: Status, after: Status) -> None:
    """`delivered` replaces any other, nothing replaces it; everything replaces `unknown`; otherwise the first stays."""
    await ledger.store.record(GATE, [row("a", before, attempts=1)])
    await ledger.store.record(OTHER, [row("a", after, attempts=2)])
    replaced = (
        before is not after
        and (after is Status.DELIVERED or before is Status.UNKNOWN)
        and before is not Status.DELIVERED
    )
    found = ledger.row("a")
    assert found is not None
    assert (found["status"], found["attempts"]) == ((after, 2) if replaced else (before, 1))
    assert ledger.gates() == {("firebase-sender", "a"): "node-1"}


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True)])
async def test_that_it_may_have_reached_the_provider_is_never_replaced(
    ledger: Ledger,
    first: bool,  # noqa: FBT001 - a table's columns
    second: bool,  # noqa: FBT001
) -> None:
    """A delivered row says so too."""
    await ledger.store.record(GATE, [row("a", Status.DLQ, maybe_reached=first)])
    await ledger.store.record(GATE, [row("a", Status.DELIVERED, maybe_reached=second)])
    found = ledger.row("a")
    assert found is not None
    assert found["maybe_reached"]


async def test_channels_are_apart(ledger: Ledger) -> None:
    """The key is id and channel."""
    await ledger.store.record(GATE, [row("a"), row("a", Status.DLQ)._replace(channel="webhook")])
    assert (ledger.row("a") or {})["status"] == "delivered"
    assert (ledger.row("a", "webhook") or {})["status"] == "dlq"


async def test_seen_is_by_consumer_and_only_of_what_was_asked(ledger: Ledger) -> None:
    """Whoever owned it."""
    await ledger.store.record(GATE, [row("a"), row("b", Status.EXPIRED)])
    await ledger.store.record(Gate("firebase-dlq", "node-1"), [row("c", Status.DLQ)])
    assert await ledger.store.seen("firebase-sender", ["a", "b", "c", "d"]) == {"a", "b"}
    assert await ledger.store.seen("firebase-sender", {"b"}) == {"b"}
    assert await ledger.store.seen("firebase-sender", []) == set()
    assert await ledger.store.seen("webhook-sender", ["a"]) == set()


async def test_a_delivered_replay_closes_the_gate_for_its_root(ledger: Ledger) -> None:
    """So that the original, still in some retry stage, is not sent after it. A dead one does not."""
    await ledger.store.record(GATE, [row("replay-1-a", Status.DLQ, root_id="a", replay_of="a")])
    assert await ledger.store.seen("firebase-sender", ["a", "replay-1-a"]) == {"replay-1-a"}
    await ledger.store.record(GATE, [row("replay-2-a", root_id="a", replay_of="a")])
    assert await ledger.store.seen("firebase-sender", ["a", "replay-2-a"]) == {"a", "replay-2-a"}
    assert ledger.row("a") is None


async def test_a_gate_row_keeps_its_first_owner(ledger: Ledger) -> None:
    """Conflicts are ignored, the rest of the batch is written."""
    await ledger.store.record(GATE, [row("a")])
    await ledger.store.record(OTHER, [row("a"), row("b")])
    assert ledger.gates() == {("firebase-sender", "a"): "node-1", ("firebase-sender", "b"): "node-2"}


@pytest.mark.parametrize(
    ("bad", "sqlstate_class"),
    [
        (row("b", user_id="nul\0"), "22"),
        (row("b", last_error="\ud800 alone"), "22"),
        (row("b", trace_id="\udfff"), "22"),
        (row("nul\0"), "22"),
        (row("b", root_id="\0"), "22"),
        (row(bytes(os.urandom(1500)).hex()), "54"),  # 3,000 characters, which do not get shorter by compression
    ],
    ids=["nul", "surrogate", "low surrogate", "nul in the id", "nul in the root", "long id"],
)
async def test_data_that_cannot_be_stored_is_refused_with_the_whole_batch(
    ledger: Ledger, bad: HistoryRow, sqlstate_class: str
) -> None:
    """Nothing of it is written, gate rows included, and the store is none the worse for it."""
    with pytest.raises(RowsRefused) as caught:
        await ledger.store.record(GATE, sorted([row("a"), bad, row("z")], key=lambda one: one.key))
    assert caught.value.sqlstate[:2] == sqlstate_class
    assert (ledger.row("a"), ledger.row("z"), ledger.gates()) == (None, None, {})
    await ledger.store.record(GATE, [row("a"), row("z")])
    assert ledger.row("a") is not None


async def test_the_fake_refuses_with_the_same_codes(ledger: Ledger) -> None:
    """As far as they are told apart anywhere."""
    codes = []
    for bad in (row("b", user_id="\0"), row("b", user_id="\ud800"), row(bytes(os.urandom(1500)).hex())):
        with pytest.raises(RowsRefused) as caught:
            await ledger.store.record(GATE, [bad])
        codes.append(caught.value.sqlstate)
    assert codes == ["22P05", "22P02", "54000"]


async def test_two_rows_with_one_key_in_a_batch_are_refused(ledger: Ledger) -> None:
    """Class 21: they have to be folded first, and then they are one."""
    twice = [row("a", Status.DLQ), row("a", Status.DLQ)]
    with pytest.raises(RowsRefused) as caught:
        await ledger.store.record(GATE, twice)
    assert caught.value.sqlstate == "21000"
    assert ledger.row("a") is None
    await ledger.store.record(GATE, fold(twice))
    assert ledger.row("a") is not None


async def test_a_bare_row_of_any_data_is_taken(ledger: Ledger) -> None:
    """What is left of a refused row can be stored."""
    bad = row("b", Status.DLQ, user_id="\0", last_error="\ud800", trace_id="\0", maybe_reached=True)
    await ledger.store.record(GATE, [bad.bare()])
    found = ledger.row("b")
    assert found is not None
    assert (found["status"], found["user_id"], found["maybe_reached"]) == ("dlq", None, True)


async def test_repeating_a_write_is_harmless(ledger: Ledger) -> None:
    """After an answer that was lost."""
    rows = [row("a", Status.DLQ, attempts=3), row("b", attempts=1)]
    for _ in range(3):
        await ledger.store.record(GATE, rows)
    assert (ledger.row("a") or {})["attempts"] == 3
    assert len(ledger.gates()) == 2


async def test_sorted_batches_of_two_owners_do_not_deadlock(ledger: Ledger) -> None:
    """The same rows at once, again and again; the first to write a gate row keeps it."""
    pairs = list(zip((GATE, OTHER), (ledger.store, ledger.another()), strict=True))
    for turn in range(10):
        rows = [row(f"n-{turn}-{number:03}", Status.DLQ) for number in range(300)]
        await asyncio.gather(*(store.record(gate, rows) for gate, store in pairs))
    assert len(ledger.gates()) == 3000


async def test_a_large_batch(ledger: Ledger) -> None:
    """As the recorder writes under load."""
    await ledger.store.record(GATE, [row(f"n-{number:04}", user_id="u" * 200) for number in range(1000)])
    assert await ledger.store.seen("firebase-sender", [f"n-{number:04}" for number in range(1001)]) == {
        f"n-{number:04}" for number in range(1000)
    }


def attempt(ident: str = "a", at: float = 1_700_000_000.25, **changes: Any) -> AttemptRow:
    """An attempt of firebase's."""
    topic = "notification-firebase-retry-30s"
    return AttemptRow(ident, at, "firebase", ident, topic, 5, 2**40, "Refused", 503, 0.125)._replace(**changes)


async def test_attempts_are_written_with_all_they_say(ledger: Ledger) -> None:
    """In no order, many of one id, and with nothing where there was no answer."""
    rows = [
        attempt("replay-1-a", root_id="a"),
        attempt("a", outcome="NotSent", http_status=None, duration=0.0),
        attempt("a", 1_700_000_001.5),
    ]
    await ledger.store.note("node-1", rows)
    assert ledger.attempts() == sorted((("node-1", one) for one in rows), key=str)
    assert ledger.gates() == {}


async def test_repeating_attempts_is_harmless(ledger: Ledger) -> None:
    """The key is id, time and node; what is there stays."""
    await ledger.store.note("node-1", [attempt(), attempt()])
    await ledger.store.note("node-1", [attempt(outcome="Delivered"), attempt("b")])
    await ledger.store.note("node-2", [attempt()])
    assert [(node, one.notification_id, one.outcome) for node, one in ledger.attempts()] == [
        ("node-1", "a", "Refused"),
        ("node-1", "b", "Refused"),
        ("node-2", "a", "Refused"),
    ]


async def test_attempts_that_cannot_be_stored_are_refused_and_rows_are_none_the_worse(ledger: Ledger) -> None:
    """All of the batch."""
    with pytest.raises(RowsRefused) as caught:
        await ledger.store.note("node-1", [attempt(), attempt("b", outcome="nul\0")])
    assert caught.value.sqlstate == "22P05"
    assert ledger.attempts() == []
    await ledger.store.record(GATE, [row("a")])
    assert ledger.row("a") is not None
