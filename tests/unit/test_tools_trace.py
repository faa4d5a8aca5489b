"""What `ringonce trace` says, and what it says when there is nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from ringonce.errors import RingonceError
from ringonce.runtime.timeline import Entry, Place, Step
from ringonce.tools import trace as module
from ringonce.tools.trace import line, show_json, show_text, trace

PLACE = Place("notification-firebase", 1, 7)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (Entry(0, Step.ENTERED, "n-1", Place("notification-events", 0, 3)), "notification-events[0]@3"),
        (Entry(0, Step.ROUTED, "n-1", PLACE, "router-1"), "notification-firebase[1]@7 by router-1"),
        (Entry(0, Step.REPLAYED, "replay-1-n-1", PLACE), "notification-firebase[1]@7 as replay-1-n-1"),
        (
            Entry(0, Step.TRIED, "n-1", PLACE, "node-1", outcome="Refused", http_status=503, duration=0.0123),
            "Refused 503 after 12 ms by node-1, from notification-firebase[1]@7",
        ),
        (
            Entry(0, Step.TRIED, "n-1", PLACE, "node-1", outcome="NotSent", duration=3.0),
            "NotSent after 3000 ms by node-1, from notification-firebase[1]@7",
        ),
        (
            Entry(0, Step.FORWARDED, "n-1", PLACE, attempts=3, reason="next-retry", error="refused with status 503"),
            "notification-firebase[1]@7 (next-retry, 3 attempts): refused with status 503",
        ),
        (
            Entry(0, Step.BURIED, "n-1", PLACE, attempts=1, maybe_reached=True),
            "notification-firebase[1]@7 (no reason given, 1 attempt, may have reached the provider)",
        ),
        (
            Entry(0, Step.RECORDED, "n-1", node="node-1", channel="apns", status="dlq", attempts=2, error="no"),
            "dlq in apns by node-1, 2 attempts: no",
        ),
        (Entry(0, Step.RECORDED, "n-1", status="dlq", attempts=0), "dlq, 0 attempts"),
    ],
)
def test_each_step_is_a_line(entry: Entry, text: str) -> None:
    """What happened, where, by whom, and why."""
    assert line("n-1", entry) == text


def test_the_whole_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    """Times in UTC; what is missing is said at the end."""
    show_text("n-1", [Entry(1_700_000_000.5, Step.ENTERED, "n-1", PLACE)], ["no row"])
    assert capsys.readouterr().out.splitlines() == [
        "n-1",
        "2023-11-14T22:13:20.500Z  entered    notification-firebase[1]@7",
        "(no row)",
    ]


def test_nothing_from_outside_moves_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever publishes may put anything into a header."""
    show_text("n-1", [Entry(0, Step.BURIED, "n-1", PLACE, reason="\x1b[2J", error="\x9b31m\r")], [])
    assert capsys.readouterr().out.replace("\n", "").isprintable()


def test_the_whole_for_a_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """What does not apply is left out."""
    show_json("n-1", [Entry(1_700_000_000.5, Step.RECORDED, "n-1", status="dlq", attempts=0)], [])
    told: Any = json.loads(capsys.readouterr().out)
    assert told == {
        "id": "n-1",
        "timeline": [
            {"at": "2023-11-14T22:13:20.500Z", "step": "recorded", "id": "n-1", "status": "dlq", "attempts": 0}
        ],
        "notes": [],
    }


def test_all_settings_that_are_missing_are_one_message() -> None:
    """Without Kafka only the database is needed."""
    faults = CliRunner().invoke(trace, ["n-1"]).exception
    assert isinstance(faults, RingonceError)
    assert (faults.exit_code, str(faults).count("is not set")) == (3, 2)
    assert "DATABASE_URL" in str(CliRunner().invoke(trace, ["n-1", "--no-kafka"]).exception)


@pytest.mark.parametrize("ident", ["", "ünknown", "two\nlines", "\udcff", "replay-1-\x1b[2J"])
def test_what_can_be_nobodys_id_is_said_on_one_line(monkeypatch: pytest.MonkeyPatch, ident: str) -> None:
    """Without asking anybody."""
    monkeypatch.setattr(module, "Archive", None)
    ended = CliRunner().invoke(trace, [ident, "--no-kafka", "--database-url", "postgresql://nobody/"]).exception
    assert isinstance(ended, RingonceError)
    assert ended.exit_code == 1
    assert len(str(ended).splitlines()) == 1
    assert str(ended).isascii()
