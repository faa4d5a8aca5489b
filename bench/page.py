"""Puts the figures of `results/latest.json` into docs/performance.md and README.

    python -m bench.page

A unit test fails while a page says something else than the results.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.figures import GOALS, Figure
from bench.report import RESULTS, number, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LATEST: Final = RESULTS / "latest.json"
ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "performance.md"
README: Final = ROOT / "README.md"

TEXTBOOK: Final = {"drain_0ms_per_s": "textbook_0ms_per_s", "drain_20ms_per_s": "textbook_20ms_per_s"}
"""What stands beside a figure: the same work by the textbook design."""

SHOWN: Final = (
    "drain_0ms_per_s",
    "drain_20ms_per_s",
    "router_per_s",
    "latency_p50_ms",
    "latency_p99_ms",
    "isolation_throughput",
    "isolation_host_throughput",
    "memory_mb",
    "memory_growth",
    "scale_two_processes",
    "replay_per_s",
)
"""What README shows; docs/performance.md shows all."""

REACHED: Final = {"aim": "yes, and what we are after", "floor": "yes", "missed": "**no**"}


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines))


def spread(figure: Figure) -> str:
    """The least and the most of its runs, or nothing where there was one."""
    if len(figure.runs) == 1:
        return ""
    return f"{number(min(figure.runs))} to {number(max(figure.runs))}"


def amount(figure: Figure) -> str:
    """The median with its unit."""
    return number(figure.median) if figure.unit == "ratio" else f"{number(figure.median)} {figure.unit}"


def asked(figures: Mapping[str, Figure]) -> str:
    """The figures that have a floor, and whether it is reached."""
    lines = []
    for key, goal in GOALS.items():
        figure = figures.get(key)
        limits = [number(goal.floor), number(goal.aim)]
        if figure is None:
            lines.append([f"`{key}`", goal.meaning, "not measured", "", *limits, ""])
            continue
        reached = REACHED[goal.reached(figure.median)]
        lines.append([f"`{key}`", goal.meaning, amount(figure), spread(figure), *limits, reached])
    return markdown(["figure", "what it is", "median", "runs", "floor", "aim", "reached"], lines)


def beside(figures: Mapping[str, Figure]) -> str:
    """The figures that explain the others."""
    rest = [figure for key, figure in figures.items() if key not in GOALS]
    return markdown(["figure", "median", "runs"], [[f"`{one.key}`", amount(one), spread(one)] for one in rest])


def excerpt(figures: Mapping[str, Figure]) -> str:
    """README's table, the textbook design beside it."""
    lines = []
    for key in SHOWN:
        figure, other = figures.get(key), figures.get(TEXTBOOK.get(key, ""))
        if figure is not None:
            lines.append([GOALS[key].meaning, amount(figure), spread(figure), "" if other is None else amount(other)])
    return markdown(["", "median", "runs", "the textbook design"], lines)


def place(machine: Mapping[str, Any]) -> str:
    """Where it was measured, in one sentence."""
    return (
        f"Measured on a machine with {machine['cores']} cores ({machine['cpu']}, {machine['memory_gib']} GiB, kernel"
        f" {machine['kernel']}) and Python {machine['python']}, which was also Kafka, PostgreSQL (fsync on), the"
        " providers and the load."
    )


def filled(text: str, name: str, content: str) -> str:
    """The page with what stands between the two marks of that name replaced.

    Raises:
        ValueError: the marks are not there.
    """
    begin, end = f"<!-- bench: {name} -->", f"<!-- end: {name} -->"
    pattern = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the page has no place for {name}")
    return pattern.sub(lambda _: f"{begin}\n{content}\n{end}", text)


def pages(results: Path = LATEST) -> dict[Path, str]:
    """Each page as it has to be."""
    found, machine = read(results)
    figures = {figure.key: figure for figure in found}
    performance = filled(PAGE.read_text(encoding="utf-8"), "asked", f"{asked(figures)}\n\n{place(machine)}")
    return {
        PAGE: filled(performance, "beside", beside(figures)),
        README: filled(README.read_text(encoding="utf-8"), "excerpt", f"{excerpt(figures)}\n\n{place(machine)}"),
    }


def main() -> None:
    """Write both pages."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
