from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg
import pytest
from tests.chaos.canaries import CHUNK, Canaries, Search, in_files, in_tables, unseen
from tests.fixtures.site import SECRET, notification
from tests.fixtures.waiting import eventually

from ringonce.domain.notification import Channel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.fixtures.fleet import Fleet
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider

BIRDS: Final = Canaries.plant(1, SECRET)


def test_the_same_seed_plants_the_same() -> None:
    assert Canaries.plant(1, SECRET) == BIRDS
    assert Canaries.plant(2, SECRET).token != BIRDS.token
    assert BIRDS.token in BIRDS.target("http://host.example/send")
    assert BIRDS.phone in BIRDS.text()
    assert BIRDS.payload in BIRDS.payload_json()


def test_clean_files_hold(tmp_path: Path) -> None:
    log = tmp_path / "sender.log"
    log.write_text('{"event": "started"}\n')
    assert unseen(in_files(BIRDS, [log])).ok


@pytest.mark.parametrize("form", [*BIRDS.forms()])
def test_a_canary_in_a_file_is_found_and_not_repeated(tmp_path: Path, form: str) -> None:
    """Also where it lies over the seam of two pieces."""
    log = tmp_path / "sender.log"
    log.write_bytes(b"x" * (CHUNK - 3) + form.encode() + b"x" * CHUNK)
    found = in_files(BIRDS, [log])
    assert f"sender.log: {BIRDS.forms()[form]}" in found.findings
    verdict = unseen(found)
    assert not verdict.ok
    assert form not in verdict.text


def test_nowhere_to_look_proves_nothing() -> None:
    assert not unseen().ok
    assert not unseen(in_files(BIRDS, [])).ok
    assert not unseen(Search("columns", 4), Search("log files", 0)).ok


@pytest.mark.broker
@pytest.mark.database
async def test_what_the_product_writes_has_no_canary_and_a_planted_one_is_found(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """A delivered and a refused notification; then one string in each kind of column that there may be."""
    site.prepare(["webhook"])
    row = {"body": BIRDS.text(), "title": BIRDS.phone, "payload_json": BIRDS.payload_json()}
    target = BIRDS.target(f"{providers['webhook'].url}/send")
    strange = BIRDS.target("http://elsewhere.example/send")
    fleet.sender("webhook")
    fleet.recorder("webhook")
    site.send(
        [
            notification(1, Channel.WEBHOOK, target=target, **row),
            notification(2, Channel.WEBHOOK, target=strange, **row),
        ],
        site.names.stage("webhook", "main"),
    )
    await eventually(lambda: site.history.count() == 2, so_far=site.history.statuses)
    assert site.history.statuses() == {"delivered": 1, "dlq": 1}
    clean = in_tables(BIRDS, site.database_url)
    assert unseen(clean).ok, clean
    assert clean.places > 10

    with psycopg.connect(site.database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE aside (note text, doc jsonb, raw bytea, list text[])")
        connection.execute(
            "INSERT INTO aside VALUES (%s, jsonb_build_object('phone', %s::text), %s, ARRAY[%s])",
            [target, BIRDS.text(), BIRDS.payload.encode(), SECRET],
        )
        connection.execute("UPDATE notifications_log SET last_error = %s WHERE notification_id = 'n-2'", [strange])
    found = in_tables(BIRDS, site.database_url)
    assert found.findings == (
        "aside.doc: phone",
        "aside.list: secret",
        "aside.note: token",
        "aside.raw: payload",
        "notifications_log.last_error: token",
    )
    assert not unseen(found).ok
