"""What a replay asks the database: what has become of a root, and where a named replay stands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import psycopg
from psycopg.errors import LockNotAvailable, UndefinedTable

from ringonce.errors import ConfigurationError, RingonceError, ServerUnreachable
from ringonce.store.postgres import address, first_line
from ringonce.store.queries import QUERIES
from ringonce.store.schema import connect

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class Past(NamedTuple):
    """What a root has behind it in one channel: whether any row is `delivered`, and the highest replay with a row."""

    delivered: bool = False
    replays: int = 0


NO_PAST: Final = Past()


class Standing(NamedTuple):
    """A named replay as it is written down.

    `asked` is what was typed; `since` and `until` are what that meant when it began, in seconds since the epoch.
    `ends` and `positions` are offsets by partition, `skipped` counts by verdict.
    """

    asked: Mapping[str, Any]
    since: float | None
    until: float | None
    ends: Mapping[int, int]
    positions: Mapping[int, int]
    published: int = 0
    skipped: Mapping[str, int] = {}
    finished: bool = False


class ReplayRuns(RingonceError):  # noqa: N818 - what is the case
    """Another process is carrying out this replay."""

    exit_code = 1


class Replays:
    """One connection for one replay; ``with Replays(url) as replays:``.

    Raises:
        ServerUnreachable: the database does not answer, now or in any call.
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

    def alone(self, owner: str, name: str) -> None:
        """Wait a moment for whoever carries this replay out to end; a killed one's connection ends with it.

        Raises:
            ReplayRuns: another process is still at it.
        """
        self._ask("replay_patience", {})
        try:
            self._ask("replay_lock", {"replay": f"{owner}/{name}"})
        except LockNotAvailable as error:
            which = f"the replay {name!r} of {owner}" if name else f"a replay of {owner}"
            raise ReplayRuns(f"{which} is running already") from error

    def past(self, channel: str, roots: Collection[str]) -> dict[str, Past]:
        """What these roots have behind them; those without rows are left out."""
        rows = self._ask("past", {"channel": channel, "roots": sorted(roots)})
        return {root: Past(delivered, replays) for root, delivered, replays in rows}

    def find(self, owner: str, name: str) -> Standing | None:
        """A named replay, if it has ever begun."""
        rows = self._ask("replay_find", {"owner": owner, "name": name})
        for asked, since, until, ends, positions, published, skipped, finished in rows:
            return Standing(asked, since, until, _numbered(ends), _numbered(positions), published, skipped, finished)
        return None

    def begin(self, owner: str, name: str, standing: Standing) -> None:
        """Write a new one down."""
        self._ask(
            "replay_begin",
            {
                "owner": owner,
                "name": name,
                "asked": json.dumps(standing.asked),
                "since": standing.since,
                "until": standing.until,
                "ends": json.dumps(standing.ends),
                "positions": json.dumps(standing.positions),
            },
        )

    def save(
        self, owner: str, name: str, positions: Mapping[int, int], counts: tuple[int, Mapping[str, int]], *, done: bool
    ) -> None:
        """Write down how far it has come: positions and `counts` (published, skipped by verdict) in one statement."""
        published, skipped = counts
        self._ask(
            "replay_save",
            {
                "owner": owner,
                "name": name,
                "positions": json.dumps(positions),
                "published": published,
                "skipped": json.dumps(skipped),
                "finished": done,
            },
        )

    def _ask(self, query: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        try:
            cursor = self._connection.execute(QUERIES[query], parameters)
            return cursor.fetchall() if cursor.description else []
        except LockNotAvailable:
            raise
        except UndefinedTable as error:
            fault = f"the database at {address(self._url)} has no schema, or an older one; `ringonce db init` makes it"
            raise ConfigurationError([fault]) from error
        except psycopg.Error as error:
            raise ServerUnreachable("PostgreSQL", address(self._url), first_line(error)) from error


def _numbered(offsets: Mapping[str, int]) -> dict[int, int]:
    """JSON's keys are text."""
    return {int(number): offset for number, offset in offsets.items()}
