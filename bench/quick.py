"""`make bench-quick`: the main scenarios in small, `results/quick.json`. At most a minute.

It shows that the benchmark runs, and the figures' order of magnitude; `make bench` is what counts.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench import drain, record, router
from bench.report import RESULTS, machine, table, write
from bench.rig import rig


def main() -> None:
    """Measure, write, print."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, rig(Path(folder)) as running:
        figures = [
            *drain.measure(running, drain.Size(rounds=1, rows=8_000, seconds=2.0, requests=8_000)),
            *record.measure(running, record.Size(rounds=1, seconds=1.0)),
            *router.measure(running, router.Size(rounds=1, records=60_000)),
        ]
    write(RESULTS / "quick.json", figures, machine())
    print(table(figures))
    print(f"quick.json written after {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
