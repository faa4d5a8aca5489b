"""What is made durable before a call, and undone after it: on a real PostgreSQL and in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

import psycopg
import pytest
import pytest_asyncio
from psycopg.rows import dict_row
from tests.contract.test_store import fresh_database
from tests.fakes.claims import MemoryClaims
from tests.fakes.samples import row
from tests.fakes.store import MemoryStore

from ringonce.domain.disposition import Status
from ringonce.store.claims import Bound, Claim
from ringonce.store.port import Gate, RowsRefused
from ringonce.store.postgres import PostgresStore
from ringonce.store.postgres_claims import PostgresClaims

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ringonce.store.claims import Claims
    from ringonce.store.port import Store

CONSUMER = "firebase-sender"
GATE = Gate(CONSUMER, "node-1")


class Ground(Protocol):
    """Claims and the store beside them, and a look at what is in it."""

    @property
    def claims(self) -> Claims:
        """Under test."""
        ...

    @property
    def store(self) -> Store:
        """On the same rows."""
        ...

    def another(self) -> Claims:
        """Another process's."""
        ...

    def rows(self) -> dict[str, Any]:
        """Status by id."""
        ...

    def owners(self) -> dict[str, str]:
        """The owner of each gate row."""
        ...

    def counts(self) -> dict[str, int]:
        """Attempts by root."""
        ...


class InMemory:
    """The fakes."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.claims = MemoryClaims(self.store, CONSUMER, "firebase")

    def another(self) -> Claims:
        """See `Ground.another`."""
        return self.claims

    def rows(self) -> dict[str, Any]:
        """See `Ground.rows`."""
        return {ident: found.status for (ident, _), found in self.store.rows.items()}

    def owners(self) -> dict[str, str]:
        """See `Ground.owners`."""
        return {ident: owner for (_, ident), owner in self.store.gates.items()}

    def counts(self) -> dict[str, int]:
        """See `Ground.counts`."""
        return {root: count for (_, root), count in self.claims.attempts.items()}


class OnPostgres:
    """The real ones."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.store = PostgresStore(url)
        self.claims: Claims = self._make()
        self.others: list[Claims] = []

    def _make(self, node: str = "node-1") -> Claims:
        return PostgresClaims(self._url, node, CONSUMER, "firebase", node)

    def another(self) -> Claims:
        """See `Ground.another`."""
        self.others.append(self._make("node-2"))
        return self.others[-1]

    def ask(self, query: str) -> list[dict[str, Any]]:
        """Another connection's look."""
        with psycopg.connect(self._url, row_factory=dict_row) as connection:
            return connection.execute(query).fetchall()

    def rows(self) -> dict[str, Any]:
        """See `Ground.rows`."""
        return {found["notification_id"]: found["status"] for found in self.ask("SELECT * FROM notifications_log")}

    def owners(self) -> dict[str, str]:
        """See `Ground.owners`."""
        return {found["notification_id"]: found["owner"] for found in self.ask("SELECT * FROM processed_events")}

    def counts(self) -> dict[str, int]:
        """See `Ground.counts`."""
        return {found["root_id"]: found["attempts"] for found in self.ask("SELECT * FROM notification_attempts")}

    async def close(self) -> None:
        """Give all connections back."""
        await self.store.close()
        for claims in (self.claims, *self.others):
            await claims.close()


@pytest.fixture(scope="module")
def database(request: pytest.FixtureRequest) -> str:
    """One database for the tests of this module."""
    return fresh_database(request.getfixturevalue("postgres"))


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.database)])
def kind(request: pytest.FixtureRequest) -> str:
    """Which."""
    return str(request.param)


@pytest_asyncio.fixture
async def ground(kind: str, request: pytest.FixtureRequest) -> AsyncIterator[Ground]:
    """An empty one of that kind."""
    if kind == "memory":
        yield InMemory()
        return
    one = OnPostgres(request.getfixturevalue("database"))
    with psycopg.connect(request.getfixturevalue("database")) as connection:
        connection.execute("TRUNCATE notifications_log, processed_events, notification_attempts")
    yield one
    await one.close()


def claim(ident: str = "a", owner: str = "node-1/1", **changes: Any) -> Claim:
    """A claim of firebase's."""
    return Claim(row(ident, Status.UNKNOWN, **changes), owner)


async def test_a_claim_is_both_rows(ground: Ground) -> None:
    """Gate and history, with whose it is and where it stands."""
    assert await ground.claims.claim([claim(user_id="u", stage="main", attempts=2), claim("b", "node-1/2")]) == {
        "a",
        "b",
    }
    assert ground.rows() == {"a": "unknown", "b": "unknown"}
    assert ground.owners() == {"a": "node-1/1", "b": "node-1/2"}
    assert await ground.store.seen(CONSUMER, ["a", "b", "c"]) == {"a", "b"}


async def test_only_one_wins(ground: Ground) -> None:
    """Whoever comes later does not, and changes nothing; the winner may ask again."""
    assert await ground.claims.claim([claim()]) == {"a"}
    assert await ground.claims.claim([claim(owner="node-2/1"), claim("b", "node-2/2")]) == {"b"}
    assert await ground.claims.claim([claim()]) == {"a"}
    assert ground.owners() == {"a": "node-1/1", "b": "node-2/2"}


async def test_of_many_at_once_each_is_won_once(ground: Ground) -> None:
    """Two processes with the same records, again and again."""
    mine, theirs = ground.claims, ground.another()
    for turn in range(5):
        ids = [f"n-{turn}-{number:03}" for number in range(200)]
        one, other = await asyncio.gather(
            mine.claim([claim(ident, f"node-1/{ident}") for ident in ids]),
            theirs.claim([claim(ident, f"node-2/{ident}") for ident in ids]),
        )
        assert one | other == set(ids)
        assert one & other == set()


async def test_what_has_ended_is_not_claimed(ground: Ground) -> None:
    """Nor a replay whose root has; another replay of a root that is open is."""
    await ground.store.record(GATE, [row("a"), row("b", Status.EXPIRED)])
    replays = [claim("replay-1-a", root_id="a", replay_of="a"), claim("replay-1-c", root_id="c", replay_of="c")]
    assert await ground.claims.claim([claim("a", "x"), claim("b", "x"), *replays]) == {"replay-1-c"}
    assert ground.rows() == {"a": "delivered", "b": "expired", "replay-1-c": "unknown"}


async def test_the_outcome_takes_the_place_of_unknown(ground: Ground) -> None:
    """Whatever it is; and an end without an answer marks the row."""
    await ground.claims.claim([claim("a"), claim("b"), claim("c")])
    await ground.store.record(GATE, [row("a"), row("b", Status.GONE), row("c", Status.UNKNOWN, maybe_reached=True)])
    assert ground.rows() == {"a": "delivered", "b": "gone", "c": "unknown"}


async def test_a_release_undoes_both_rows(ground: Ground) -> None:
    """After which anybody may claim it; to repeat it does nothing."""
    await ground.claims.claim([claim("a"), claim("b")])
    assert await ground.claims.release([claim("a")]) == {"a"}
    assert await ground.claims.release([claim("a")]) == set()
    assert (ground.rows(), ground.owners()) == ({"b": "unknown"}, {"b": "node-1/1"})
    assert await ground.claims.claim([claim("a", "node-2/1")]) == {"a"}


async def test_nobody_releases_what_is_not_theirs(ground: Ground) -> None:
    """The claim is by owner, not by node."""
    await ground.claims.claim([claim("a", "node-1/2")])
    assert await ground.claims.release([claim("a", "node-1/1")]) == set()
    assert ground.rows() == {"a": "unknown"}


async def test_a_release_leaves_what_has_ended_otherwise(ground: Ground) -> None:
    """A row that another consumer has written meanwhile stays."""
    await ground.claims.claim([claim("a")])
    await ground.store.record(Gate("firebase-dlq", "node-1"), [row("a", Status.DLQ)])
    await ground.claims.release([claim("a")])
    assert ground.rows() == {"a": "dlq"}


async def test_a_late_release_of_what_was_taken_over_deletes_nothing(ground: Ground) -> None:
    """Whoever skips a record makes sure that its row stays."""
    await ground.claims.claim([claim("a"), claim("b")])
    await ground.store.record(GATE, [row("b")])
    assert await ground.claims.take_over(["a", "b", "c"], "node-2/1") == {"a", "b"}
    assert await ground.claims.release([claim("a")]) == set()
    assert ground.rows() == {"a": "unknown", "b": "delivered"}
    assert ground.owners() == {"a": "node-2/1", "b": "node-1/1"}


async def test_releases_and_takeovers_at_once_agree(ground: Ground) -> None:
    """For each row one of them wins: either it is gone and was not found, or it was found and has stayed."""
    mine, theirs = ground.claims, ground.another()
    for turn in range(5):
        claims = [claim(f"n-{turn}-{number:03}", "mine") for number in range(200)]
        ids = [one.id for one in claims]
        await mine.claim(claims)
        released, held = await asyncio.gather(mine.release(claims), theirs.take_over(ids, "theirs"))
        left = {ident for ident in ground.rows() if ident in set(ids)}
        assert released | left == set(ids)
        assert released & left == set()
        assert held <= left


async def test_attempts_are_counted_up_to_the_bound(ground: Ground) -> None:
    """By root; one that has used its bound up is not counted, and a higher bound lets it go on."""
    assert [await ground.claims.count([Bound("a", 2)]) for _ in range(3)] == [{"a"}, {"a"}, set()]
    assert await ground.claims.count([Bound("a", 2), Bound("b", 1), Bound("c", 0)]) == {"b"}
    assert await ground.claims.count([Bound("a", 4)]) == {"a"}
    assert ground.counts() == {"a": 3, "b": 1}


async def test_an_attempt_is_given_back(ground: Ground) -> None:
    """Never below none."""
    await ground.claims.count([Bound("a", 3), Bound("b", 3)])
    await ground.claims.give_back(["a", "c"])
    await ground.claims.give_back(["a"])
    assert ground.counts() == {"a": 0, "b": 1}


async def test_two_processes_count_together(ground: Ground) -> None:
    """No more than the bound between them, and no deadlock over the order."""
    mine, theirs = ground.claims, ground.another()
    bounds = [Bound(f"n-{number:03}", 3) for number in range(200)]
    counted = [found for _ in range(4) for found in await asyncio.gather(mine.count(bounds), theirs.count(bounds))]
    assert sum(map(len, counted)) == 600
    assert set(ground.counts().values()) == {3}


async def test_data_that_cannot_be_stored_is_refused(ground: Ground) -> None:
    """All of the batch; what is left of a bad row can be claimed."""
    bad = claim("b", user_id="nul\0")
    with pytest.raises(RowsRefused) as caught:
        await ground.claims.claim([claim("a"), bad])
    assert caught.value.sqlstate == "22P05"
    assert ground.rows() == {}
    assert await ground.claims.claim([Claim(bad.row.bare(), "x")]) == {"b"}
