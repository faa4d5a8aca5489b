"""What `ringonce history` refuses, and how it shows rows."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner

from ringonce.store.archive import Ended
from ringonce.store.schema import Count
from ringonce.tools.history import counts_as_json, counts_as_text, history, rows_as_json, rows_as_text

NOTHING: dict[str, Any] = dict.fromkeys(Ended.__slots__)
ROW = replace(
    Ended(**NOTHING),
    notification_id="n-1",
    channel="firebase",
    status="dlq",
    attempts=3,
    root_id="n-1",
    last_error="refused with status 503",
    http_status=503,
    recorded_at=datetime(2026, 1, 31, 12, tzinfo=UTC),
    maybe_reached=False,
)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--channel", "pigeon"], "'pigeon' is not one of 'apns', 'email', 'firebase', 'ntfy', 'webhook'"),
        (["--status", "lost"], "'lost' is not one of"),
        (["--since", "soon"], "'soon' is neither an age such as 2h"),
        (["--since", "1h", "--until", "2h"], "--since is not before --until"),
        (["--limit", "5"], "--limit needs --rows"),
        (["--rows", "--limit", "0"], "0 is not in the range"),
    ],
)
def test_bad_input_is_said_at_once(arguments: list[str], said: str) -> None:
    """Before any server is asked; exit 2."""
    done = CliRunner().invoke(history, arguments)
    assert done.exit_code == 2
    assert said in done.output


def test_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """A record that never reached a channel has none."""
    counts = [Count("", "dlq", 1), Count("firebase", "delivered", 20)]
    counts_as_text(counts)
    assert [text.split() for text in capsys.readouterr().out.splitlines()] == [
        ["channel", "status", "rows"],
        ["(none)", "dlq", "1"],
        ["firebase", "delivered", "20"],
    ]
    counts_as_json(counts)
    assert json.loads(capsys.readouterr().out) == [
        {"channel": "", "status": "dlq", "rows": 1},
        {"channel": "firebase", "status": "delivered", "rows": 20},
    ]


def test_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """A line each for a person, every column for a machine."""
    rows_as_text([replace(ROW, last_error="\x1b[2J\n")])
    assert capsys.readouterr().out.count("\n") == 2
    rows_as_text([ROW, replace(ROW, notification_id="longer-id", channel="", http_status=None, last_error=None)])
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["written", "channel", "status", "id", "calls", "http", "error"]
    assert first.split() == [
        "2026-01-31T12:00:00.000Z",
        "firebase",
        "dlq",
        "n-1",
        "3",
        "503",
        "refused",
        "with",
        "status",
        "503",
    ]
    assert second.split() == ["2026-01-31T12:00:00.000Z", "(none)", "dlq", "longer-id", "3"]
    rows_as_json([ROW])
    [told] = json.loads(capsys.readouterr().out)
    assert set(told) == set(Ended.__slots__)
    assert (told["recorded_at"], told["last_error"], told["user_id"]) == (
        "2026-01-31T12:00:00.000Z",
        "refused with status 503",
        None,
    )


def test_no_rows_is_an_empty_table(capsys: pytest.CaptureFixture[str]) -> None:
    """And an empty list."""
    rows_as_text([])
    assert len(capsys.readouterr().out.splitlines()) == 1
    rows_as_json([])
    assert capsys.readouterr().out == "[]\n"
