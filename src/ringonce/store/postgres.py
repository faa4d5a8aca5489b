"""The store on PostgreSQL.

Each use has a pool of its own, so that slow work does not starve fast work. After an outage a pool hands out dead
connections and waits longer and longer before it tries again; so a pool that has failed is thrown away, and a fresh
connection is tried at most once a second until one answers.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol, TypeVar
from urllib.parse import urlsplit, urlunsplit

import orjson
import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from ringonce.domain.disposition import Status
from ringonce.errors import ConfigurationError, ServerUnreachable
from ringonce.store.port import AttemptRow, Gate, HistoryRow, RowsRefused, StoreAway
from ringonce.store.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from psycopg import AsyncConnection

log = logging.getLogger(__name__)

T = TypeVar("T")

DATA_CLASSES: Final = frozenset({"21", "22", "23", "54"})
"""SQLSTATE classes that are about the data; every other error is about the database."""

PING_INTERVAL: Final = 1.0
CONNECT_TIMEOUT: Final = 3
STATEMENT_TIMEOUT: Final = 10.0
ANSWER_TIMEOUT: Final = STATEMENT_TIMEOUT + 2.0
"""Seconds after which a statement is given up on, whatever the server does: a stalled one ends nothing by itself."""

SERVER_SETTINGS: Final = (
    f"-c statement_timeout={int(STATEMENT_TIMEOUT * 1000)} -c lock_timeout=5000 "
    "-c idle_in_transaction_session_timeout=10000"
)

Connection = psycopg.AsyncConnection[psycopg.rows.TupleRow]


def address(url: str) -> str:
    """The URL for a message to a person: without password and options."""
    try:
        parts = urlsplit(url)
        if parts.scheme:
            return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        known = conninfo_to_dict(url)
    except (ValueError, psycopg.Error):
        return "DATABASE_URL"
    return f"{known.get('host', 'localhost')}:{known.get('port', 5432)}/{known.get('dbname', '')}"


def first_line(error: Exception) -> str:
    """What went wrong, without the advice that libpq appends, and without the URL."""
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
        return "it is no URL that libpq can read"  # libpq's own words quote it, password and all
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def translate(error: psycopg.Error) -> Exception:
    """What a library error means: about the data, or about the database."""
    state = error.sqlstate
    if state is None and isinstance(error, psycopg.DataError):  # refused by the library before the server saw it
        return RowsRefused("22000")
    if state is not None and state[:2] in DATA_CLASSES:
        return RowsRefused(state)
    return StoreAway(f"{type(error).__name__} {state or ''}".strip())


class Timed(Protocol):
    """Told of each statement: its seconds, and whether the database did it."""

    def __call__(self, seconds: float, *, ok: bool) -> None:
        """One has ended."""
        ...


class Asked(Protocol):
    """Told of each statement of a use: ``gate``, ``record``, ``note``."""

    def __call__(self, operation: str, seconds: float, *, ok: bool) -> None:
        """One has ended."""
        ...


class Access:
    """One use's way to the database, with at most `size` connections."""

    def __init__(self, url: str, name: str, timed: Timed | None = None, size: int = 1) -> None:
        self._url = url
        self._name = name
        self._timed = timed
        self._size = size
        self._pool: AsyncConnectionPool[Connection] | None = None
        self._tried = -PING_INTERVAL
        self._abandoned: set[asyncio.Task[object]] = set()

    async def run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Run `work`, which is one statement and so one transaction.

        Raises:
            StoreAway: the database cannot be asked, or did not answer in time.
            RowsRefused: the data was refused.
        """
        if self._timed is None:
            return await self._run(work)
        started = monotonic()
        try:
            answer = await self._run(work)
        except (StoreAway, RowsRefused):
            self._timed(monotonic() - started, ok=False)
            raise
        self._timed(monotonic() - started, ok=True)
        return answer

    async def _run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        pool = self._pool or await self._reopen()
        task = asyncio.ensure_future(self._on_connection(pool, work))
        # Not wait_for: cancelling a query on a stalled connection may itself wait for the server.
        try:
            done, _ = await asyncio.wait({task}, timeout=ANSWER_TIMEOUT)
        except asyncio.CancelledError:
            self._abandon(task)
            raise
        if not done:
            self._abandon(task)
            self._drop()
            raise StoreAway("no answer in time")
        try:
            return task.result()
        except (PoolTimeout, PoolClosed) as error:
            self._drop()
            raise StoreAway(type(error).__name__) from error
        except psycopg.Error as error:
            meaning = translate(error)
            if isinstance(meaning, StoreAway):
                self._drop()
            raise meaning from error

    async def _on_connection(
        self, pool: AsyncConnectionPool[Connection], work: Callable[[AsyncConnection], Awaitable[T]]
    ) -> T:
        async with pool.connection(timeout=CONNECT_TIMEOUT) as connection:
            return await work(connection)

    def _abandon(self, task: asyncio.Task[T]) -> None:
        task.cancel()
        self._abandoned.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[object]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()  # taken note of: what it says no longer concerns anybody

    async def _reopen(self) -> AsyncConnectionPool[Connection]:
        if monotonic() - self._tried < PING_INTERVAL:
            raise StoreAway("waiting to connect again")
        self._tried = monotonic()
        pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            self._url,
            min_size=1,
            max_size=self._size,
            open=False,
            name=self._name,
            timeout=CONNECT_TIMEOUT,
            # One statement is one transaction: autocommit saves two round trips a batch.
            kwargs={
                "autocommit": True,
                "connect_timeout": CONNECT_TIMEOUT,
                "options": SERVER_SETTINGS,
                "application_name": self._name,
            },
        )
        try:
            # A connection of our own first: a pool would hide the reason, and go on trying behind our back.
            ping = await psycopg.AsyncConnection.connect(self._url, connect_timeout=CONNECT_TIMEOUT)
            await ping.close()
            await pool.open(wait=True, timeout=CONNECT_TIMEOUT)
        except (psycopg.Error, PoolTimeout) as error:
            await pool.close(timeout=0)
            raise StoreAway(first_line(error)) from error
        self._pool = pool
        return pool

    def _drop(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            self._abandoned.add(closing := asyncio.ensure_future(pool.close(timeout=0)))
            closing.add_done_callback(self._forget)

    async def close(self) -> None:
        """Give the connections back."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close(timeout=1.0)
        if self._abandoned:
            await asyncio.wait(self._abandoned, timeout=1.0)


class PostgresStore:
    """Implements `Store`. Open it before use; `url` is a libpq URL, `asked` is told of every statement."""

    def __init__(self, url: str, name: str = "ringonce", asked: Asked | None = None) -> None:
        self._url = url

        def access(use: str, operation: str) -> Access:
            return Access(url, f"{name}-{use}", None if asked is None else partial(asked, operation))

        self._gate = access("gate", "gate")
        self._recorder = access("recorder", "record")
        # Apart, and opened only when there is something to note: trouble with the timeline must not touch the history.
        self._notes = access("notes", "note")
        # Opened only where somebody asks whether the database is there, and no statement of the others waits for it.
        self._pings = Access(url, f"{name}-pings")

    async def open(self) -> None:
        """Connect and look at the schema.

        Raises:
            ServerUnreachable: the server does not answer, or will not have us.
            ConfigurationError: the schema is not there.
        """
        try:
            present = await self._gate.run(_schema_present)
        except StoreAway as error:
            raise ServerUnreachable("PostgreSQL", address(self._url), str(error)) from error
        if not present:
            raise ConfigurationError(
                [f"the database at {address(self._url)} has no schema, or an older one; `ringonce db init` makes it"]
            )

    async def close(self) -> None:
        """Give the connections back."""
        await self._gate.close()
        await self._recorder.close()
        await self._notes.close()
        await self._pings.close()

    async def ping(self) -> None:
        """See whether the database answers.

        Raises:
            StoreAway: it does not.
        """

        async def look(connection: AsyncConnection) -> None:
            await connection.execute(QUERIES["ping"])

        await self._pings.run(look)

    async def seen(self, consumer: str, ids: Collection[str]) -> set[str]:
        """See `Store.seen`."""
        parameters = {"consumer": consumer, "ids": list(ids)}

        async def look(connection: AsyncConnection) -> set[str]:
            cursor = await connection.execute(QUERIES["seen"], parameters)
            return {row[0] for row in await cursor.fetchall()}

        return await self._gate.run(look)

    async def record(self, gate: Gate, rows: Sequence[HistoryRow]) -> None:
        """See `Store.record`."""
        parameters = record_parameters(gate, rows)

        async def write(connection: AsyncConnection) -> None:
            await connection.execute(QUERIES["record"], parameters)

        await self._recorder.run(write)

    async def note(self, node: str, attempts: Sequence[AttemptRow]) -> None:
        """See `Store.note`."""
        parameters = {"node": node, "attempts": _json(attempts)}

        async def write(connection: AsyncConnection) -> None:
            await connection.execute(QUERIES["note"], parameters)

        await self._notes.run(write)


def record_parameters(gate: Gate, rows: Sequence[HistoryRow]) -> dict[str, str]:
    """What the statement `record` is given.

    Raises:
        RowsRefused: one of the rows cannot be written down.
    """
    return {
        "consumer": gate.consumer,
        "owner": gate.owner,
        "gate_ids": _text(gate_ids(rows)),
        "rows": _json(rows),
    }


def gate_ids(rows: Sequence[HistoryRow]) -> list[str]:
    """The gate rows that belong to history rows, sorted: a delivered replay also closes the gate for its root."""
    ids = {row.notification_id for row in rows}
    ids.update(row.root_id for row in rows if row.status is Status.DELIVERED)
    return sorted(ids)


def _json(rows: Sequence[HistoryRow | AttemptRow]) -> str:
    """The rows as `json_to_recordset` reads them: their fields are called like the columns.

    Raises:
        RowsRefused: a text is none, because it holds a lone surrogate.
    """
    return _text([row._asdict() for row in rows])


def _text(found: object) -> str:
    try:
        return orjson.dumps(found).decode()
    except orjson.JSONEncodeError as error:
        raise RowsRefused("22P02") from error  # invalid_text_representation, as the server would say


async def _schema_present(connection: AsyncConnection) -> bool:
    cursor = await connection.execute(QUERIES["schema_present"])
    row = await cursor.fetchone()
    return row is not None and bool(row[0])
