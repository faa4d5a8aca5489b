"""A tool's connection to the database: statements by name, and every trouble in one line."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

import psycopg
from psycopg.errors import UndefinedTable
from psycopg.rows import class_row

from ringonce.errors import ConfigurationError, ServerUnreachable
from ringonce.store.postgres import address, first_line
from ringonce.store.queries import QUERIES
from ringonce.store.schema import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")


class Inquiry:
    """Each statement is a transaction of its own; ``with Inquiry(url) as inquiry:``.

    Raises, from every method:
        ServerUnreachable: the database does not answer, or will not have it.
        ConfigurationError: the schema is not there, or older than this program.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection = connect(url)
        self._connection.autocommit = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, query: str, kind: type[T], **parameters: Any) -> list[T]:
        """The rows that a statement of `queries.sql` returns, each as a `kind` with the columns as its fields."""
        with self._translated(), self._connection.cursor(row_factory=class_row(kind)) as cursor:
            return cursor.execute(QUERIES[query], parameters).fetchall()

    def value(self, query: str, **parameters: Any) -> Any:
        """The one value that a statement returns."""
        with self._translated():
            row = self._connection.execute(QUERIES[query], parameters).fetchone()
        assert row is not None  # noqa: S101 - such statements return a row
        return row[0]

    def change(self, query: str, **parameters: Any) -> int:
        """How many rows a statement has changed."""
        with self._translated():
            return self._connection.execute(QUERIES[query], parameters).rowcount

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """What the library raises, in our words."""
        try:
            yield
        except UndefinedTable as error:
            fault = f"the database at {address(self._url)} has no schema, or an older one; `ringonce db init` makes it"
            raise ConfigurationError([fault]) from error
        except UnicodeEncodeError as error:
            raise ConfigurationError(["what is asked for is no text in UTF-8"]) from error
        except psycopg.Error as error:
            raise ServerUnreachable("PostgreSQL", address(self._url), first_line(error)) from error
