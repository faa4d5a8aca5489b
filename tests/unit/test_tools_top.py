"""The lines of `ringonce top`: what two readings of metrics pages come to."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from ringonce.errors import ServerUnreachable
from ringonce.observe.reading import Reading, Unreadable, Value, quantile, read_page
from ringonce.stand.ports import free_port
from ringonce.tools import top as module
from ringonce.tools.board import HEAD, LATE, Line, board, cells
from ringonce.tools.sources import Endpoint, Endpoints
from ringonce.tools.top import top

if TYPE_CHECKING:
    from collections.abc import Sequence

SENDER = """
# TYPE ringonce_in_flight gauge
ringonce_in_flight{channel="firebase"} 12.0
# TYPE ringonce_send_slots gauge
ringonce_send_slots{channel="firebase"} 64.0
# TYPE ringonce_breakers gauge
ringonce_breakers{channel="firebase",state="closed"} 0.0
ringonce_breakers{channel="firebase",state="open"} 1.0
# TYPE ringonce_held gauge
ringonce_held{channel="firebase",reason="breaker"} 40.0
ringonce_held{channel="firebase",reason="database"} 2.0
# TYPE ringonce_terminal_rows counter
ringonce_terminal_rows_total{channel="firebase",status="delivered"} %(delivered)s
ringonce_terminal_rows_total{channel="firebase",status="expired"} 5.0
# TYPE ringonce_forwards counter
ringonce_forwards_total{channel="firebase",reason="exhausted",stage="dlq"} %(dead)s
ringonce_forwards_total{channel="firebase",reason="next-retry",stage="retry-30s"} 900.0
# TYPE ringonce_oldest_age_seconds gauge
ringonce_oldest_age_seconds{channel="firebase",seen_from="inside",stage="main"} 2.0
# TYPE ringonce_delivery_since_dispatched_seconds histogram
ringonce_delivery_since_dispatched_seconds_bucket{channel="firebase",le="0.1"} %(quick)s
ringonce_delivery_since_dispatched_seconds_bucket{channel="firebase",le="1.0"} %(all)s
ringonce_delivery_since_dispatched_seconds_bucket{channel="firebase",le="+Inf"} %(all)s
ringonce_delivery_since_dispatched_seconds_count{channel="firebase"} %(all)s
ringonce_delivery_since_dispatched_seconds_sum{channel="firebase"} 9.0
# TYPE python_info gauge
python_info{version="3.11"} 1.0
"""
EXPORTER = """
# TYPE ringonce_oldest_age_seconds gauge
ringonce_oldest_age_seconds{channel="firebase",seen_from="outside",stage="main"} 75.0
ringonce_oldest_age_seconds{channel="firebase",seen_from="outside",stage="retry-30s"} 0.0
ringonce_oldest_age_seconds{channel="firebase",seen_from="outside",stage="retry-5m"} 0.0
ringonce_oldest_age_seconds{channel="firebase",seen_from="outside",stage="dlq"} 9000.0
ringonce_oldest_age_seconds{channel="router",seen_from="outside",stage="entry"} 0.0
# TYPE ringonce_lag_records gauge
ringonce_lag_records{channel="firebase",stage="main"} 31.0
# TYPE ringonce_dlq_records gauge
ringonce_dlq_records{channel="firebase"} 7.0
# TYPE ringonce_history_rows gauge
ringonce_history_rows{channel="firebase",status="delivered"} %(delivered)s
"""


def reading(at: float, *pages: str) -> Reading:
    """The pages of a moment."""
    return Reading(at, [read_page(page) for page in pages])


def sender(delivered: int = 0, dead: int = 0, quick: int = 0, every: int = 0) -> str:
    """A sender's page."""
    return SENDER % {"delivered": delivered, "dead": dead, "quick": quick, "all": every}


def test_a_line_for_each_channel_and_stage_in_the_order_of_a_records_way() -> None:
    """The router first, the DLQ last; a short delay before a long one."""
    pages = [sender(), EXPORTER % {"delivered": 0}]
    assert [(line.channel, line.stage) for line in board(reading(0, *pages), reading(2, *pages))] == [
        ("router", "entry"),
        ("firebase", "main"),
        ("firebase", "retry-30s"),
        ("firebase", "retry-5m"),
        ("firebase", "dlq"),
    ]


def test_rates_and_percentiles_are_of_the_time_between_two_looks() -> None:
    """Not of a process's whole life."""
    before, after = sender(1000, 3, 900, 1000), sender(1200, 4, 990, 1100)
    [line] = board(reading(10, before), reading(12, after))
    assert (line.rate, line.dead_per_minute) == (100.0, 30.0)
    assert line.p50 == pytest.approx(0.1 * 50 / 90)
    assert line.p99 == pytest.approx(0.1 + 0.9 * 9 / 10)
    assert (line.age, line.lag, line.in_flight, line.slots, line.breakers, line.held) == (2.0, None, 12, 64, 1, 42)


def test_what_a_process_does_not_say_the_exporter_does() -> None:
    """With the sender dead: its age from outside, its rate from the database, and nothing that only it could know."""
    before, after = EXPORTER % {"delivered": 100}, EXPORTER % {"delivered": 150}
    line = board(reading(0, before), reading(5, after))[1]
    assert (line.channel, line.stage, line.age, line.lag, line.rate) == ("firebase", "main", 75.0, 31.0, 10.0)
    assert (line.p50, line.in_flight, line.breakers, line.held) == (None, None, None, None)
    assert line.dead_per_minute == 0


def test_the_older_of_two_ages_is_shown() -> None:
    """A sender knows of what it holds only."""
    line = board(reading(0, sender(), EXPORTER % {"delivered": 0}), reading(1, sender(), EXPORTER % {"delivered": 0}))[
        1
    ]
    assert line.age == 75.0
    assert line.late


def test_a_process_that_began_anew_has_no_rate() -> None:
    """Its counters went back: a negative rate would be nonsense."""
    [line] = board(reading(0, sender(1000, 3, 900, 1000)), reading(2, sender(10, 0, 5, 5)))
    assert (line.rate, line.dead_per_minute, line.p50, line.p99) == (None, None, None, None)


def test_what_lies_in_a_dlq_is_not_late() -> None:
    """Nobody is expected to take it from there by itself."""
    assert not Line("firebase", "dlq", LATE * 100).late
    assert Line("firebase", "main", LATE).late
    assert not Line("firebase", "main").late


@pytest.mark.parametrize(
    ("share", "counts", "expected"),
    [
        (0.5, {1.0: 10, 2.0: 20, float("inf"): 20}, 1.0),
        (0.75, {1.0: 10, 2.0: 20, float("inf"): 20}, 1.5),
        (0.99, {1.0: 0, 2.0: 0, float("inf"): 20}, 2.0),  # beyond the last bound
        (0.5, {1.0: 0, float("inf"): 0}, None),
        (0.5, {}, None),
    ],
)
def test_quantiles(share: float, counts: dict[float, float], expected: float | None) -> None:
    """As `histogram_quantile` has them."""
    assert quantile(share, {}, counts) == expected


def test_cells_say_what_is_unknown_and_fit_a_hundred_columns() -> None:
    """A dash is not a zero."""
    full = Line("firebase", "retry-30s", 4000.0, 123_456.0, 5500.4, 0.0123, 0.5, 256.0, 256.0, 2.0, 10_000.0, 99.0)
    rows = cells([full._replace(stage="main"), Line("webhook", "main")])
    assert rows[0] == [
        *("firebase", "main", "67 m", "123,456", "5,500", "12 ms", "500 ms", "256/256", "2 open", "10,000", "99"),
    ]
    assert rows[1][2:] == ["-"] * (len(HEAD) - 2)
    table = [list(HEAD), *rows]
    assert sum(max(len(row[at]) for row in table) + 2 for at in range(len(HEAD))) <= 100


@pytest.mark.parametrize("text", ["<html>", 'ringonce_x{le="', "ringonce_x one\n"])
def test_what_is_no_page(text: str) -> None:
    """Somebody else listens on the port."""
    with suppress(Unreadable):
        assert read_page(text) == []


def test_nobody_there() -> None:
    """One line says which ports were asked."""
    silent = Endpoint("127.0.0.1", free_port())
    with pytest.raises(ServerUnreachable, match=f"metrics port at {silent} is not reachable"):
        Endpoints([silent]).read()


class Scripted:
    """Implements `Source`: one reading after the other."""

    def __init__(self, readings: Sequence[Reading]) -> None:
        self._readings = list(readings)

    def read(self) -> Reading:
        """See `Source.read`."""
        return self._readings.pop(0)

    def __str__(self) -> str:
        return "a script"


def test_once_for_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number of a line by its name, and where they come from."""
    readings = [reading(0, sender(0)), reading(2, sender(100))]
    monkeypatch.setattr(module, "Endpoints", lambda _: Scripted(readings))
    monkeypatch.setattr("time.sleep", lambda _: None)
    done = CliRunner().invoke(top, ["--endpoint", "9464", "--once", "--json"])
    assert done.exit_code == 0, done.output
    told: dict[str, Any] = json.loads(done.output)
    assert told["source"] == "a script"
    expected = Line(
        "firebase", "main", 2.0, rate=50.0, in_flight=12.0, slots=64.0, breakers=1.0, held=42.0, dead_per_minute=0.0
    )
    assert told["lines"] == [expected._asdict()]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--json"], "--json needs --once"),
        ([], "this is no terminal"),
        (["--endpoint", "here"], "neither host:port nor a port"),
        (["--endpoint", "1:70000"], "neither host:port nor a port"),
        (["--every", "0"], "0.0 is not in the range"),
    ],
)
def test_bad_input_is_said_at_once(arguments: list[str], said: str) -> None:
    """Nothing is asked before."""
    done = CliRunner().invoke(top, arguments)
    assert done.exit_code == 2
    assert said in done.output


def test_values_of_others_are_left_out() -> None:
    """A page has those of Python and of the process as well."""
    assert {value.name.split("_")[0] for value in read_page(sender())} == {"ringonce"}
    assert Value("ringonce_in_flight", {"channel": "firebase"}, 12.0) in read_page(sender())
