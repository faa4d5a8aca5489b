"""Events as log lines."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest

from ringonce.observe import events
from ringonce.observe.logs import configure, emit_to, headline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ALL: list[events.Event] = [
    events.Started("r", "n"),
    events.Stopped("r", "n", 0),
    events.PartitionsAssigned(("t[0]",)),
    events.PartitionsRevoked(("t[0]",), 1),
    events.PartitionsLost(("t[0]",)),
    events.BreakerChanged("firebase", "closed", "open", "refused with status 503"),
    events.Recorded(5, 0.1),
    events.Forwarded("n-1", "t-1", "retry-30s", "next-retry"),
    events.Ended("n-1", "t-1", "main", "delivered", 1),
    events.RowStripped("n-1", "22P05"),
    events.Held("database", "gone", 5, 0.0),
    events.Resumed("database", 3.0),
    events.Unpublishable("n-1", "dlq", "x"),
    events.AttemptsDropped(3),
]


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[], str]]:
    """What was written to standard error; logging is put back as it was afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("ringonce")
    before = root.handlers[:], root.level, ours.level
    yield lambda: capsys.readouterr().err
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


def parsed(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_breakers_line_is_the_one_that_operators_look_for() -> None:
    """As it has always been."""
    assert headline(ALL[5]) == "CB firebase: closed → open"


def test_events_are_json_lines_with_their_fields(lines: Callable[[], str]) -> None:
    """Every event there is can be written; the line is not escaped beyond need."""
    configure("DEBUG", "json")
    emit = emit_to(logging.getLogger("ringonce"))
    for event in ALL:
        emit(event)
    text = lines()
    found = parsed(text)
    assert [line["event_type"] for line in found] == [type(event).__name__ for event in ALL]
    breaker = found[5]
    assert breaker["event"] == "CB firebase: closed → open"
    assert (breaker["destination"], breaker["before"], breaker["after"]) == ("firebase", "closed", "open")
    assert breaker["cause"] == "refused with status 503"
    assert (breaker["level"], breaker["logger"]) == ("info", "ringonce")
    assert "CB firebase: closed → open" in text
    assert {kind.__name__ for kind in events.Event.__args__} == {line["event_type"] for line in found}


def test_levels(lines: Callable[[], str]) -> None:
    """What happens per message is for debugging; what needs somebody is a warning."""
    configure("INFO", "json")
    emit = emit_to(logging.getLogger("ringonce"))
    for event in ALL:
        emit(event)
    found = {line["event_type"]: line["level"] for line in parsed(lines())}
    assert "Recorded" not in found
    assert "Forwarded" not in found
    assert "Ended" not in found
    assert {kind for kind, level in found.items() if level == "warning"} == {
        "AttemptsDropped",
        "Held",
        "PartitionsLost",
        "RowStripped",
        "Unpublishable",
    }


@pytest.mark.parametrize("name", ["httpx", "httpcore", "pyreqwest", "psycopg.pool", "urllib3", "anything"])
def test_third_parties_are_silent_below_warning(lines: Callable[[], str], name: str) -> None:
    """HTTP clients print whole URLs at INFO, and with them tokens and phone numbers."""
    configure("DEBUG", "json")
    logging.getLogger(name).info("POST http://provider/CANARY")
    logging.getLogger(name).warning("trouble")
    assert [line["event"] for line in parsed(lines())] == ["trouble"]


def test_a_traceback_is_in_its_line(lines: Callable[[], str]) -> None:
    """One event is one line, in JSON."""
    configure(form="json")
    try:
        int("x")
    except ValueError:
        logging.getLogger("ringonce").exception("broken")
    (line,) = parsed(lines())
    assert "ValueError" in str(line["exception"])


def test_readable_on_a_terminal(lines: Callable[[], str]) -> None:
    """For people."""
    configure(form="text")
    emit_to(logging.getLogger("ringonce"))(ALL[5])
    text = lines()
    assert "CB firebase: closed → open" in text
    assert not text.startswith("{")


def test_every_line_says_whose_it_is(lines: Callable[[], str]) -> None:
    """Role, channel and node are bound once, for libraries' lines too; what an event says itself goes first."""
    configure("DEBUG", "json", role="firebase-sender", channel="firebase", node="node-1")
    emit_to(logging.getLogger("ringonce"))(ALL[7])
    emit_to(logging.getLogger("ringonce"))(events.Started("other", "node-2"))
    logging.getLogger("httpx").warning("trouble")
    forwarded, started, library = parsed(lines())
    for line in (forwarded, library):
        assert (line["role"], line["channel"], line["node"]) == ("firebase-sender", "firebase", "node-1")
    assert (forwarded["notification_id"], forwarded["trace_id"], forwarded["stage"]) == ("n-1", "t-1", "retry-30s")
    assert (started["role"], started["node"]) == ("other", "node-2")
