"""What replays ask the database and write into it, on a real PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.fakes.samples import row

from ringonce.domain.disposition import Status
from ringonce.errors import ConfigurationError, ServerUnreachable
from ringonce.store.port import Gate
from ringonce.store.postgres import PostgresStore
from ringonce.store.replays import Past, ReplayRuns, Replays, Standing
from ringonce.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ringonce.stand.postgres import PostgresServer
    from ringonce.store.port import HistoryRow

pytestmark = pytest.mark.database

STANDING = Standing({"limit": 5, "user": ["ü"]}, 100.5, None, {0: 9, 1: 0}, {0: 2, 1: 0})


@pytest.fixture
def url(bare: str) -> str:
    migrate(bare)
    return bare


@pytest.fixture
def replays(url: str) -> Iterator[Replays]:
    with Replays(url) as replays:
        yield replays


async def write(url: str, *rows: HistoryRow) -> None:
    """Rows as a sender writes them."""
    store = PostgresStore(url)
    await store.open()
    await store.record(Gate("firebase-sender", "node"), sorted(rows, key=lambda each: each.key))
    await store.close()


async def test_what_a_root_has_behind_it(url: str, replays: Replays) -> None:
    """Whether it was ever delivered, in this channel; and its highest replay that has a row, by number."""
    dead, done = Status.DLQ, Status.DELIVERED
    await write(
        url,
        row("dead", dead),
        row("done"),
        row("again", dead),
        *(row(f"replay-{k}-again", dead, root_id="again", replay_of="again") for k in (9, 10)),
        row("later", dead),
        row("replay-1-later", done, root_id="later", replay_of="later"),
        row("lost", Status.EXPIRED),
        row("elsewhere", channel="apns"),
    )
    asked = ["dead", "done", "again", "later", "lost", "elsewhere", "never"]
    assert replays.past("firebase", asked) == {
        "dead": Past(),
        "done": Past(delivered=True),
        "again": Past(replays=10),
        "later": Past(delivered=True, replays=1),
        "lost": Past(),
    }
    assert replays.past("apns", asked) == {"elsewhere": Past(delivered=True)}
    assert replays.past("firebase", []) == {}


def test_a_named_replay_is_found_as_it_was_left(replays: Replays) -> None:
    """Under its name and its owner's; another's is another."""
    replays.begin("firebase", "night", STANDING)
    assert replays.find("firebase", "night") == STANDING
    assert replays.find("apns", "night") is None
    replays.save("firebase", "night", {0: 5, 1: 0}, (3, {"expired": 1}), done=False)
    found = replays.find("firebase", "night")
    assert found == STANDING._replace(positions={0: 5, 1: 0}, published=3, skipped={"expired": 1})
    replays.save("firebase", "night", {0: 9, 1: 0}, (6, {"expired": 1}), done=True)
    found = replays.find("firebase", "night")
    assert found is not None
    assert (found.published, found.finished) == (6, True)


def test_only_one_process_carries_a_replay_out(url: str, replays: Replays) -> None:
    """Until its connection ends, however it does; others are not in its way."""
    with Replays(url) as other:
        other.alone("firebase", "night")
        replays.alone("firebase", "day")
        replays.alone("apns", "night")
        with pytest.raises(ReplayRuns, match="the replay 'night' of firebase is running already"):
            replays.alone("firebase", "night")
    replays.alone("firebase", "night")


def test_a_schema_that_is_older_is_said(bare: str) -> None:
    """With what makes it up to date."""
    with Replays(bare) as replays, pytest.raises(ConfigurationError, match="`ringonce db init`"):
        replays.find("firebase", "night")
    with Replays(bare) as replays, pytest.raises(ConfigurationError, match="`ringonce db init`"):
        replays.past("firebase", ["a"])


def test_a_connection_that_ends_is_a_server_that_is_away(replays: Replays, postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.superuser_url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", [replays._connection.info.backend_pid])
    with pytest.raises(ServerUnreachable, match="PostgreSQL"):
        replays.past("firebase", ["a"])
