"""Figures: their medians as JSON for machines and as a table for people."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from statistics import median

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Figure:
    """One measured quantity, with every run of it."""

    key: str
    unit: str
    runs: list[float]

    @property
    def median(self) -> float:
        """The middle of the runs."""
        return median(self.runs)


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


def write(name: str, figures: list[Figure]) -> Path:
    """Write `results/<name>.json` and print the table."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    found = {
        figure.key: {
            "median": round(figure.median, 3),
            "unit": figure.unit,
            "runs": [round(run, 3) for run in figure.runs],
        }
        for figure in figures
    }
    path.write_text(json.dumps({"figures": found, "machine": machine()}, indent=2) + "\n", encoding="utf-8")
    print(f"{'figure':<26}{'median':>12}  {'least':>10} {'most':>10}  unit")
    for figure in figures:
        least, most = min(figure.runs), max(figure.runs)
        print(f"{figure.key:<26}{figure.median:>12,.2f}  {least:>10,.2f} {most:>10,.2f}  {figure.unit}")
    return path
