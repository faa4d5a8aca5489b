"""`ringonce history`: counted, filtered, and row by row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ringonce.store import schema

if TYPE_CHECKING:
    from tests.fixtures.program import Programs
    from tests.fixtures.site import Site

pytestmark = [pytest.mark.database]

ROWS = """
INSERT INTO notifications_log
    (notification_id, channel, status, root_id, replay_of, user_id, event_key, attempts, last_error, recorded_at)
VALUES
    ('a', 'firebase', 'delivered', 'a', NULL, 'user-1', 'order:1', 1, NULL, now() - interval '3 days'),
    ('b', 'firebase', 'dlq', 'b', NULL, 'user-1', 'order:2', 3, 'refused with status 503', now() - interval '2 hours'),
    ('replay-1-b', 'firebase', 'delivered', 'b', 'b', 'user-1', 'order:2', 1, NULL, now() - interval '1 hour'),
    ('c', 'webhook', 'dlq', 'c', NULL, 'user-2', 'order:2', 1, 'rejected with status 400', now() - interval '1 minute'),
    ('d', '', 'dlq', 'd', NULL, NULL, NULL, 0, 'no channel', now() - interval '5 days')
"""


@pytest.fixture
def asked(site: Site, programs: Programs) -> Any:
    """Runs `ringonce history` on five rows, and reads the JSON where that was asked for."""
    site.make_database()
    schema.migrate(site.database_url)
    with psycopg.connect(site.database_url) as connection:
        connection.execute(ROWS)

    def ask(*arguments: str) -> Any:
        code, text = programs.run("ringonce", "history", *arguments)
        assert code == 0, text
        return json.loads(text) if "--json" in arguments else text

    return ask


def test_counts_of_everything(asked: Any) -> None:
    """As a table; for machines the same."""
    assert [line.split() for line in asked().splitlines()] == [
        ["channel", "status", "rows"],
        ["(none)", "dlq", "1"],
        ["firebase", "delivered", "2"],
        ["firebase", "dlq", "1"],
        ["webhook", "dlq", "1"],
    ]
    assert asked("--json")[0] == {"channel": "", "status": "dlq", "rows": 1}
    assert asked("--json", "--channel", "firebase", "--status", "dlq") == [
        {"channel": "firebase", "status": "dlq", "rows": 1}
    ]


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        ([], ["c", "replay-1-b", "b", "a", "d"]),
        (["--limit", "2"], ["c", "replay-1-b"]),
        (["--channel", "webhook"], ["c"]),
        (["--status", "delivered"], ["replay-1-b", "a"]),
        (["--since", "90m"], ["c", "replay-1-b"]),
        (["--until", "1d"], ["a", "d"]),
        (["--since", "4d", "--until", "90m"], ["b", "a"]),
        (["--since", "2100-01-01"], []),
        (["--user", "user-1", "--status", "dlq"], ["b"]),
        (["--event-key", "order:2"], ["c", "replay-1-b", "b"]),
        (["--id", "b"], ["replay-1-b", "b"]),
        (["--id", "replay-1-b"], ["replay-1-b", "b"]),
        (["--id", "nobody"], []),
    ],
    ids=" ".join,
)
def test_rows_newest_first(asked: Any, arguments: list[str], ids: list[str]) -> None:
    """Those that every filter lets through."""
    rows = asked("--rows", "--json", *arguments)
    assert [row["notification_id"] for row in rows] == ids
    lines = asked("--rows", *arguments).splitlines()[1:]
    assert [line.split()[3] for line in lines] == ids
