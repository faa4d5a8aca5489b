"""Makes the schema, empties it, and counts what is in it: the tools' side of the store."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from ringonce.errors import ServerUnreachable
from ringonce.store.postgres import CONNECT_TIMEOUT, address, first_line
from ringonce.store.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable


class Count(NamedTuple):
    """How many rows of a channel have a status."""

    channel: str
    status: str
    rows: int


def _migrations() -> Iterator[Traversable | Path]:
    """The migrations in order: the wheel's copy or, in a checkout, those under db/."""
    packaged = resources.files(__package__).joinpath("migrations")
    checkout = Path(__file__).parents[3] / "db" / "migrations"
    folder: Traversable | Path = packaged if packaged.is_dir() else checkout
    yield from sorted(
        (entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name
    )


def connect(url: str) -> psycopg.Connection:
    """A connection for a tool.

    Raises:
        ServerUnreachable: with the address, never with the password.
    """
    try:
        return psycopg.connect(url, connect_timeout=CONNECT_TIMEOUT)
    except psycopg.Error as error:
        raise ServerUnreachable("PostgreSQL", address(url), first_line(error)) from error


def migrate(url: str) -> list[str]:
    """Apply what has not been applied yet, all in one transaction; the names of the new ones."""
    done = []
    with connect(url) as connection:
        connection.execute(QUERIES["migrations_lock"])  # two tools at once: the second finds nothing to do
        connection.execute(QUERIES["migrations_table"])
        applied = {row[0] for row in connection.execute(QUERIES["applied"])}
        for migration in _migrations():
            if migration.name in applied:
                continue
            connection.execute(migration.read_text(encoding="utf-8"))
            connection.execute(QUERIES["migrated"], {"name": migration.name})
            done.append(migration.name)
    return done


def truncate(url: str) -> None:
    """Forget gate and history. For development."""
    with connect(url) as connection:
        connection.execute(QUERIES["truncate"])


def history(url: str) -> list[Count]:
    """How many rows each channel has by status."""
    return _counts(url, "history")


def history_by_root(url: str) -> list[Count]:
    """How many notifications each channel has by what has become of them, their replays counted with them."""
    return _counts(url, "history_by_root")


def _counts(url: str, query: str) -> list[Count]:
    with connect(url) as connection:
        return [Count(*row) for row in connection.execute(QUERIES[query])]
