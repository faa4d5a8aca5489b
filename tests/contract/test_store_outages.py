"""The store on PostgreSQL while that is killed, hangs and comes back. The server is this module's own."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import psycopg
import pytest
import pytest_asyncio
from tests.fakes.samples import row
from tests.fixtures import servers

from ringonce.errors import ConfigurationError, ServerUnreachable
from ringonce.store import postgres as module
from ringonce.store.port import Gate, StoreAway
from ringonce.store.postgres import PostgresStore
from ringonce.store.schema import history, migrate, truncate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ringonce.stand.postgres import PostgresServer

pytestmark = pytest.mark.database

GATE = Gate("firebase-sender", "node-1")
PATIENCE = 30.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """Not the run's: others go on while this one is broken."""
    server = servers.start_postgres(tmp_path_factory.mktemp("outages"))
    migrate(server.url)
    yield server
    server.stop()
    server.purge()


@pytest_asyncio.fixture
async def store(server: PostgresServer) -> AsyncIterator[PostgresStore]:
    """An empty store that has been in use, both ways."""
    truncate(server.url)
    store = PostgresStore(server.url)
    await store.open()
    await store.record(GATE, [row("before")])
    yield store
    await store.close()


async def recovered(store: PostgresStore, ident: str) -> None:
    """Record until it succeeds, as the recorder does."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await store.record(GATE, [row(ident)])
                assert await store.seen(GATE.consumer, [ident, "before"]) == {ident, "before"}
            except StoreAway:
                await asyncio.sleep(0.1)
            else:
                return


async def test_a_killed_server_is_away_and_comes_back(server: PostgresServer, store: PostgresStore) -> None:
    """Every call says so while it is gone, none hangs, and without anybody's help it goes on afterwards."""
    server.kill()
    try:
        for _ in range(3):
            with pytest.raises(StoreAway):
                await store.record(GATE, [row("a")])
            with pytest.raises(StoreAway):
                await store.seen(GATE.consumer, ["a"])
    finally:
        await asyncio.to_thread(server.restart)
    await recovered(store, "a")
    assert [tuple(found) for found in history(server.url)] == [("firebase", "delivered", 2)]


async def test_a_restarted_server_costs_no_row(server: PostgresServer, store: PostgresStore) -> None:
    """The pool's connections are dead without our knowing: that is an outage, not the rows' fault."""
    await asyncio.to_thread(server.restart)
    await recovered(store, "a")


async def test_connections_that_are_cut_are_replaced(server: PostgresServer, store: PostgresStore) -> None:
    """By an administrator, or a failover."""
    with psycopg.connect(server.superuser_url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'ringonce'")
    await recovered(store, "a")


async def test_a_hung_server_holds_nobody_for_ever(
    server: PostgresServer, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections are open and nothing answers: calls end in their time, connected or not, and it recovers."""
    monkeypatch.setattr(module, "ANSWER_TIMEOUT", 0.5)
    monkeypatch.setattr(module, "CONNECT_TIMEOUT", 1)
    server.pause()
    try:
        started = time.monotonic()
        for _ in range(2):
            with pytest.raises(StoreAway):
                await asyncio.wait_for(store.record(GATE, [row("a")]), PATIENCE)
            with pytest.raises(StoreAway):
                await asyncio.wait_for(store.seen(GATE.consumer, ["a"]), PATIENCE)
        assert time.monotonic() - started < PATIENCE
    finally:
        server.resume()
    await recovered(store, "a")


async def test_a_call_that_is_cancelled_on_a_hung_server_ends(server: PostgresServer, store: PostgresStore) -> None:
    """A process that stops must not wait for the server."""
    server.pause()
    try:
        call = asyncio.ensure_future(store.record(GATE, [row("a")]))
        await asyncio.wait({call}, timeout=0.2)
        assert not call.done()
        call.cancel()
        await asyncio.wait({call}, timeout=PATIENCE)
        assert call.cancelled()
    finally:
        server.resume()
    await recovered(store, "b")


async def test_a_lock_that_is_not_given_up_is_an_outage(
    server: PostgresServer, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLSTATE 55P03 is about the database, not about the rows."""
    monkeypatch.setattr(module, "SERVER_SETTINGS", "-c lock_timeout=100")
    impatient = PostgresStore(server.url)
    with psycopg.connect(server.url) as other:
        other.execute("LOCK notifications_log")
        with pytest.raises(StoreAway, match="55P03"):
            await impatient.record(GATE, [row("a")])
    await impatient.close()
    await store.record(GATE, [row("a")])


async def test_opening_without_a_server_says_its_address(server: PostgresServer) -> None:
    """And not the password."""
    url = server.url.replace("ringonce@127.0.0.1", "ringonce:CANARY@127.0.0.1").replace(str(server.port), "1")
    with pytest.raises(
        ServerUnreachable, match=r"^PostgreSQL at postgresql://127\.0\.0\.1:1/ringonce is not"
    ) as caught:
        await PostgresStore(url).open()
    assert "CANARY" not in str(caught.value)


async def test_opening_without_the_schema_says_what_makes_it(server: PostgresServer) -> None:
    """Before anything is consumed."""
    store = PostgresStore(server.superuser_url.rpartition("/")[0] + "/postgres")
    with pytest.raises(ConfigurationError, match="ringonce db init"):
        await store.open()
    await store.close()


def test_the_schema_is_made_once(server: PostgresServer) -> None:
    """A second time there is nothing to do."""
    assert migrate(server.url) == []
