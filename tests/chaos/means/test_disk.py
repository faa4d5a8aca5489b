"""A disk that is full under PostgreSQL: while rows are written, and when a checkpoint is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg
import pytest
from tests.chaos.means import disk as means
from tests.chaos.means.disk import SmallDisk
from tests.fixtures import servers
from tests.fixtures.rows import untruths
from tests.fixtures.site import Site, notification
from tests.fixtures.waiting import eventually

from ringonce.stand.postgres_home import location

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.fixtures.program import Programs

    from ringonce.mock.thread import MockProvider
    from ringonce.stand.postgres import PostgresServer

pytestmark = [
    pytest.mark.broker,
    pytest.mark.database,
    pytest.mark.skipif(bool(means.lacks()), reason=f"no-means: {means.lacks()}"),
]

MEBIBYTES: Final = 400
"""Room for the server's programs, where they have to be copied, and for its files."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = location(tmp_path / "servers")
    with SmallDisk(folder, MEBIBYTES) as disk:
        yield disk
    folder.rmdir()


@pytest.fixture
def postgres(tmp_path: Path, disk: SmallDisk) -> Iterator[PostgresServer]:
    """A server of this test's own, on the small disk."""
    server = servers.start_postgres(tmp_path / "servers")
    yield server
    disk.free()
    server.stop()


async def test_with_no_room_for_rows_or_checkpoint_finished_work_waits_for_the_disk(
    site: Site, programs: Programs, providers: Mapping[str, MockProvider], postgres: PostgresServer, disk: SmallDisk
) -> None:
    """Without room for rows the server refuses them (53100); when it comes to a checkpoint it dies.

    Either way the sender holds, and when there is room again it records everything, without another call.
    """
    site.prepare(["firebase"])
    firebase = providers["firebase"]
    main = site.names.stage("firebase", "main")
    sender = programs.start("sender", "--channel", "firebase")
    ids = site.send([notification(f"before-{number}") for number in range(100)], main)
    await eventually(lambda: site.history.unrecorded(ids) == set(), so_far=site.history.statuses)

    assert disk.fill() > 0
    refused = site.send([notification(f"refused-{number}") for number in range(300)], main)
    [held] = await eventually(lambda: sender.events("Held"))
    assert held["reason"] == "DiskFull 53100"
    assert postgres.running
    disk.free()
    await eventually(lambda: site.history.unrecorded(refused) == set(), so_far=site.history.statuses)
    assert len(sender.events("Resumed")) == 1

    disk.fill()
    panic(postgres)
    lost = site.send([notification(f"lost-{number}") for number in range(300)], main)
    await eventually(lambda: len(sender.events("Held")) == 2)
    # It had tried to recover, and found no room for that either.
    await eventually(lambda: not postgres.running)
    disk.free()
    postgres.start()
    await eventually(lambda: site.history.unrecorded(lost) == set(), so_far=site.history.statuses)
    ids += refused + lost
    assert sorted(act.key for act in firebase.acts()) == sorted(ids)
    assert untruths(site.history.rows(), ids, [firebase]) == []
    assert sender.stop() == 0, sender.text()


def panic(server: PostgresServer) -> None:
    """Have it make a checkpoint, as it does by itself now and then: without room for one it cannot go on."""
    with psycopg.connect(server.superuser_url, autocommit=True) as connection, pytest.raises(psycopg.OperationalError):
        connection.execute("CHECKPOINT")
