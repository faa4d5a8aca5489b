"""The proxy does what its modes say, counts it, and heals: before a plain server and before the real ones."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from typing import TYPE_CHECKING, Final, Self

import psycopg
import pytest
from tests.chaos.proxy import Hits, Mode, Proxy
from tests.fakes.samples import row
from tests.fixtures.waiting import eventually

from ringonce.stand.ports import LOOPBACK, free_port
from ringonce.store.port import Gate, StoreAway
from ringonce.store.postgres import PostgresStore
from ringonce.store.schema import history, migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ringonce.stand.postgres import PostgresServer

GATE: Final = Gate("firebase-sender", "node-1")
ROWS: Final = b'"notification_id"'
"""Is in every batch of rows that the store writes, and in nothing else that it says once the schema was looked at."""


class _Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            self.server.heard.append(line)  # type: ignore[attr-defined]
            self.wfile.write(line)


class EchoServer(socketserver.ThreadingTCPServer):
    """Says every line back, and remembers it."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__((LOOPBACK, port or free_port()), _Echo)
        self.heard: list[bytes] = []

    def handle_error(self, *_: object) -> None:
        """A client that is cut off is what these tests are about."""


@pytest.fixture
def echo() -> Iterator[EchoServer]:
    with EchoServer() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def proxy(echo: EchoServer) -> Iterator[Proxy]:
    with Proxy(LOOPBACK, echo.server_address[1]) as proxy:
        yield proxy


class Caller:
    """A client of the echo server."""

    def __init__(self, proxy: Proxy) -> None:
        self._socket = socket.create_connection((LOOPBACK, proxy.port), timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def say(self, words: bytes) -> None:
        """Says it, and no more."""
        self._socket.sendall(words)

    def hear(self, count: int) -> bytes:
        """So many bytes, or fewer when the stream ends."""
        heard = b""
        while len(heard) < count and (piece := self._socket.recv(count - len(heard))):
            heard += piece
        return heard

    def silent(self) -> bool:
        """Whether nothing has come, not even the end."""
        self._socket.settimeout(0)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        finally:
            self._socket.settimeout(30)
        return False

    def ask(self, words: bytes) -> bytes:
        """What comes in return."""
        self.say(words)
        return self.hear(len(words))

    def end(self) -> bytes:
        """Says no more; what still comes until the other side has ended too."""
        self._socket.shutdown(socket.SHUT_WR)
        return self.hear(1_000_000)


def test_it_passes_everything_and_the_end_of_the_stream(proxy: Proxy) -> None:
    with Caller(proxy) as caller:
        assert caller.ask(b"hello\n") == b"hello\n"
        caller.say(b"bye\n" * 100_000)
        assert caller.end() == b"bye\n" * 100_000
    hits = proxy.hits(Mode.PASS)
    assert (hits.connections, hits.bytes) == (1, 2 * (6 + 400_000))


def test_delay_holds_up_each_way_until_it_is_healed(proxy: Proxy) -> None:
    """A round trip takes at least twice the delay; an endless one ends with the heal."""
    with Caller(proxy) as caller:
        proxy.delay(0.05)
        started = time.monotonic()
        assert caller.ask(b"slow\n") == b"slow\n"
        assert time.monotonic() - started >= 0.1
        assert proxy.hits(Mode.DELAY) == Hits(connections=1, pieces=2, bytes=10)
        proxy.delay(3600)
        caller.say(b"never\n")
        proxy.heal()
        assert caller.hear(6) == b"never\n"


async def test_deaf_keeps_connections_open_and_goes_on_where_it_stood(proxy: Proxy, echo: EchoServer) -> None:
    """Connections from before and new ones alike: nothing arrives, nothing is lost."""
    with Caller(proxy) as old:
        assert old.ask(b"before\n") == b"before\n"
        proxy.deaf()
        with Caller(proxy) as new:
            old.say(b"old\n")
            new.say(b"new\n")
            await eventually(lambda: proxy.hits(Mode.DEAF) == Hits(connections=2, pieces=1, bytes=4))
            assert echo.heard == [b"before\n"]
            assert old.silent()
            assert new.silent()
            proxy.heal()
            assert old.hear(4) == b"old\n"
            assert new.hear(4) == b"new\n"


def test_reset_ends_all_connections_and_new_ones_until_it_is_healed(proxy: Proxy) -> None:
    with Caller(proxy) as old:
        old.ask(b"before\n")
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            old.hear(1)
    with pytest.raises(ConnectionResetError), Caller(proxy) as new:
        new.hear(1)
    assert proxy.hits(Mode.RESET).connections == 2
    proxy.heal()
    with Caller(proxy) as again:
        assert again.ask(b"after\n") == b"after\n"


def test_refuse_lets_nobody_in_until_it_is_healed(proxy: Proxy) -> None:
    """Who is in stays in; the port stays the same."""
    with Caller(proxy) as old:
        old.ask(b"before\n")
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            Caller(proxy)
        assert old.ask(b"still\n") == b"still\n"
        proxy.refuse()
        proxy.heal()
        with Caller(proxy) as again:
            assert again.ask(b"after\n") == b"after\n"


async def test_dropped_replies_were_asked_for(proxy: Proxy, echo: EchoServer) -> None:
    """The server has heard everything, the client nothing; healing resets it, for its stream has a hole."""
    with Caller(proxy) as caller:
        caller.ask(b"before\n")
        proxy.drop_replies()
        caller.say(b"lost\n")
        await eventually(lambda: proxy.hits(Mode.DROP_REPLIES) == Hits(connections=1, pieces=1, bytes=5))
        assert echo.heard == [b"before\n", b"lost\n"]
        assert caller.silent()
        proxy.heal()
        with pytest.raises(ConnectionResetError):
            caller.hear(1)
    with Caller(proxy) as again:
        assert again.ask(b"after\n") == b"after\n"


async def test_only_the_reply_to_a_marker_is_lost(proxy: Proxy, echo: EchoServer) -> None:
    """Also to one that comes in two pieces; other connections are not concerned."""
    proxy.lose_reply_to(b"COMMIT")
    with Caller(proxy) as caller, Caller(proxy) as other:
        assert caller.ask(b"COMM\n") == b"COMM\n"
        caller.say(b"COM")
        await eventually(lambda: proxy.hits(Mode.PASS).bytes == 13)
        caller.say(b"MIT\n")
        with pytest.raises(ConnectionResetError):
            caller.hear(1)
        assert echo.heard[-1] == b"COMMIT\n"
        assert other.ask(b"other\n") == b"other\n"
    assert proxy.hits(Mode.DROP_REPLIES) == Hits(connections=1, pieces=1, bytes=7)


def test_a_server_that_is_not_there_resets(proxy: Proxy, echo: EchoServer) -> None:
    """And one that comes back is found again."""
    with Caller(proxy) as caller:
        assert caller.ask(b"there\n") == b"there\n"
    port = echo.server_address[1]
    echo.shutdown()
    echo.server_close()
    with pytest.raises(ConnectionResetError), Caller(proxy) as caller:
        caller.hear(1)
    with EchoServer(port) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        with Caller(proxy) as caller:
            assert caller.ask(b"back\n") == b"back\n"


def through(proxy: Proxy, url: str, server: PostgresServer) -> str:
    """The server's URL by way of the proxy."""
    return url.replace(f":{server.port}/", f":{proxy.port}/")


@pytest.mark.database
def test_the_reply_to_a_commit_is_lost_and_the_commit_is_not(postgres: PostgresServer) -> None:
    with Proxy(LOOPBACK, postgres.port) as proxy, psycopg.connect(postgres.url) as direct:
        direct.autocommit = True
        direct.execute("CREATE TABLE lost_reply (name text)")
        try:
            with psycopg.connect(through(proxy, postgres.url, postgres)) as connection:
                connection.execute("INSERT INTO lost_reply VALUES ('a')")
                proxy.lose_reply_to(b"COMMIT")
                connection.execute("INSERT INTO lost_reply VALUES ('b')")
                with pytest.raises(psycopg.OperationalError):
                    connection.commit()
            assert direct.execute("SELECT name FROM lost_reply ORDER BY name").fetchall() == [("a",), ("b",)]
        finally:
            direct.execute("DROP TABLE lost_reply")
        assert proxy.hits(Mode.DROP_REPLIES).connections == 1


@pytest.mark.database
async def test_the_store_cannot_know_of_a_commit_whose_reply_is_lost(postgres: PostgresServer, bare: str) -> None:
    """Its statement is its transaction: no COMMIT is ever said, but its rows are, prepared or not."""
    migrate(bare)
    with Proxy(LOOPBACK, postgres.port) as proxy:
        store = PostgresStore(through(proxy, bare, postgres))
        await store.open()
        try:
            for number in range(10):  # psycopg prepares a statement when it has been used some times
                await store.record(GATE, [row(f"before-{number}")])
            proxy.lose_reply_to(ROWS)
            assert await store.seen(GATE.consumer, ["before-0", "lost"]) == {"before-0"}
            with pytest.raises(StoreAway):
                await store.record(GATE, [row("lost")])
            assert proxy.hits(Mode.DROP_REPLIES).connections == 1
            assert await store.seen(GATE.consumer, ["before-0", "lost"]) == {"before-0", "lost"}
            proxy.heal()
        finally:
            await store.close()
    assert [tuple(found) for found in history(bare)] == [("firebase", "delivered", 11)]
