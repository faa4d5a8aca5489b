"""The benchmark's arithmetic, and that the pages say what was measured."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from bench.figures import GOALS, Figure, Goal, percentile, ratios, steady_rate
from bench.offer import p99_ms, pace
from bench.page import LATEST, SHOWN, TEXTBOOK, filled, pages
from bench.report import cells, merged, number, read, table, write

if TYPE_CHECKING:
    from pathlib import Path


def test_the_rate_of_a_steady_stream_is_its_pace() -> None:
    assert steady_rate([second / 100 for second in range(1000)]) == pytest.approx(100)


def test_the_rate_leaves_out_how_a_run_begins_and_ends() -> None:
    """A slow start or a slow end is not the pace of the middle."""
    slow_start = [float(second) for second in range(100)]
    steady = [100 + event / 100 for event in range(1800)]
    slow_end = [120 + float(second) for second in range(100)]
    assert steady_rate([*slow_start, *steady, *slow_end]) == pytest.approx(100, rel=0.02)


def test_the_rate_of_batches_counts_each_event() -> None:
    """Rows of one batch are committed at the same moment."""
    batches = [float(batch) for batch in range(100) for _ in range(50)]
    assert steady_rate(batches) == pytest.approx(50)


@pytest.mark.parametrize("times", [[], [1.0, 2.0], [7.0] * 100])
def test_too_little_has_no_rate(times: list[float]) -> None:
    with pytest.raises(ValueError, match=r"rate|at once"):
        steady_rate(times)


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(value) for value in range(1, 101)]
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile([3.0], 0.99) == 3
    assert percentile([4.0, 1.0, 2.0], 1.0) == 4
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_ratios_are_taken_turn_by_turn() -> None:
    assert ratios([10, 30], [5, 10]) == [2, 3]
    with pytest.raises(ValueError, match="shorter"):
        ratios([1], [])


def test_what_gets_there_late_is_not_in_the_pace() -> None:
    """An open-loop load goes on; who has fallen behind it did less in that time."""
    due = {str(event): event / 10 for event in range(101)}
    on_time = {key: moment for key, moment in due.items() if moment <= 5}
    behind = {key: moment + 20 for key, moment in due.items() if moment > 5}
    assert pace(due, due) == pytest.approx(10.1)
    assert pace(due, on_time | behind) == pytest.approx(5.1)
    assert p99_ms(due, on_time | behind) == pytest.approx(20_000)


def test_a_ceiling_is_reached_from_above() -> None:
    more, less = Goal(10, 20, ""), Goal(40, 20, "", less_is_better=True)
    assert [more.reached(figure) for figure in (9, 10, 20)] == ["missed", "floor", "aim"]
    assert [less.reached(figure) for figure in (41, 40, 20)] == ["missed", "floor", "aim"]


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    """The file's form is a contract: median, unit and runs by key, and the machine."""
    path = tmp_path / "results.json"
    write(path, [Figure("drain_0ms_per_s", "rows/s", [3, 1, 2])], {"cores": 2})
    assert json.loads(path.read_text()) == {
        "figures": {"drain_0ms_per_s": {"median": 2, "unit": "rows/s", "runs": [3, 1, 2]}},
        "machine": {"cores": 2},
    }
    assert read(path) == ([Figure("drain_0ms_per_s", "rows/s", [3, 1, 2])], {"cores": 2})


def test_a_scenario_measured_anew_takes_its_old_place() -> None:
    old = [Figure("a", "s", [1]), Figure("b", "s", [1])]
    assert merged(old, [Figure("a", "s", [2]), Figure("c", "s", [3])]) == [
        Figure("a", "s", [2]),
        Figure("b", "s", [1]),
        Figure("c", "s", [3]),
    ]


def test_the_table_shows_floor_and_aim() -> None:
    assert cells(Figure("drain_0ms_per_s", "rows/s", [4500, 4000, 5000])) == [
        "drain_0ms_per_s",
        "4,500",
        "4,000",
        "5,000",
        "rows/s",
        "4,000",
        "6,000",
        "floor",
    ]
    assert "textbook" in table([Figure("textbook_0ms_per_s", "rows/s", [500])])
    assert [number(value) for value in (12345.6, 99.94, 0.8512)] == ["12,346", "99.9", "0.851"]


def test_a_page_without_a_place_is_a_mistake() -> None:
    assert filled("<!-- bench: x -->\nold\n<!-- end: x -->\n", "x", "new") == (
        "<!-- bench: x -->\nnew\n<!-- end: x -->\n"
    )
    with pytest.raises(ValueError, match="no place for y"):
        filled("nothing", "y", "")


def test_the_pages_say_what_was_measured() -> None:
    """Figures in prose would go stale: they come from the results (`python -m bench.page`)."""
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is stale: python -m bench.page"


def test_every_figure_that_was_asked_for_is_there() -> None:
    """The results that are committed come from all scenarios."""
    measured = {figure.key for figure in read(LATEST)[0]}
    assert set(GOALS) <= measured
    assert {*SHOWN, *TEXTBOOK.values()} <= measured
