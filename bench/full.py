"""`make bench`: every scenario, `results/latest.json`, and a table. At most a quarter of an hour.

    python -m bench.full [--scenario NAME]... [--keep]

Scenarios named alone are printed and not kept; with --keep their figures take the places of the old ones.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import attempts, drain, isolation, latency, memory, metrics, page, record, replay, router, scale, semantics
from bench.page import LATEST
from bench.report import machine, merged, read, table, write
from bench.rig import rig

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.figures import Figure
    from bench.rig import Rig

SCENARIOS: Final[dict[str, Callable[[Rig], list[Figure]]]] = {
    "drain": lambda running: drain.measure(running, drain.Size()),
    "record": lambda running: record.measure(running, record.Size()),
    "router": lambda running: router.measure(running, router.Size()),
    "latency": lambda running: latency.measure(running, latency.Size()),
    "isolation": lambda running: isolation.measure(running, isolation.Size()),
    "memory": lambda running: memory.measure(running, memory.Size()),
    "scale": lambda running: scale.measure(running, scale.Size()),
    "replay": lambda running: replay.measure(running, replay.Size()),
    "attempts": lambda running: attempts.measure(running, attempts.Size()),
    "metrics": lambda running: metrics.measure(running, metrics.Size()),
    "semantics": lambda running: semantics.measure(running, semantics.Size()),
}


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(prog="bench.full", description="Measure; docs/performance.md says what.")
    parser.add_argument("--scenario", action="append", choices=list(SCENARIOS), help="only this one; may be repeated")
    parser.add_argument("--keep", action="store_true", help="keep its figures in latest.json")
    asked = parser.parse_args()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder, rig(Path(folder)) as running:
        for name in asked.scenario or SCENARIOS:
            began = time.monotonic()
            found = SCENARIOS[name](running)
            figures += found
            print(f"{name}: {time.monotonic() - began:.0f} s\n{table(found)}", flush=True)
    if len(asked.scenario or SCENARIOS) > 1:
        print(table(figures))
    if asked.scenario is None or asked.keep:
        write(LATEST, figures if asked.scenario is None else merged(read(LATEST)[0], figures), machine())
        page.main()


if __name__ == "__main__":
    main()
