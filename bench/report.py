"""Figures as JSON for machines and as tables for people."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.figures import GOALS, Figure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RESULTS: Final = Path(__file__).parent / "results"
SHORT: Final = 100
"""From here on a figure is shown without decimals."""


def machine() -> dict[str, object]:
    """Where it was measured."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30),
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


def write(path: Path, figures: Iterable[Figure], where: dict[str, object]) -> None:
    """Write a result file."""
    path.parent.mkdir(exist_ok=True)
    found = {
        figure.key: {
            "median": round(figure.median, 4),
            "unit": figure.unit,
            "runs": [round(run, 4) for run in figure.runs],
        }
        for figure in figures
    }
    text = json.dumps({"figures": found, "machine": where}, indent=2, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")


def read(path: Path) -> tuple[list[Figure], dict[str, Any]]:
    """The figures of a result file and its machine; nothing where there is no file."""
    if not path.exists():
        return [], {}
    content = json.loads(path.read_text(encoding="utf-8"))
    return [Figure(key, one["unit"], one["runs"]) for key, one in content["figures"].items()], content["machine"]


def merged(old: Iterable[Figure], new: Iterable[Figure]) -> list[Figure]:
    """The old figures with those that were measured anew in their places."""
    return list({figure.key: figure for figure in (*old, *new)}.values())


def number(value: float) -> str:
    """A figure as a person reads it."""
    if abs(value) >= SHORT:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"  # noqa: PLR2004 - three digits are enough


def cells(figure: Figure) -> list[str]:
    """A figure's line: key, median, least, most, unit, floor, aim, what was reached."""
    goal = GOALS.get(figure.key)
    line = [figure.key, number(figure.median), number(min(figure.runs)), number(max(figure.runs)), figure.unit]
    if goal is None:
        return [*line, "", "", ""]
    return [*line, number(goal.floor), number(goal.aim), goal.reached(figure.median)]


HEAD: Final = ("figure", "median", "least", "most", "unit", "floor", "aim", "reached")


def table(figures: Sequence[Figure]) -> str:
    """Aligned columns for a terminal."""
    lines = [list(HEAD), *map(cells, figures)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    left = {0, 4, 7}
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
