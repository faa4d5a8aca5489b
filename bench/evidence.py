"""What the database shows: rows, and the moment at which each was committed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import psycopg

from bench.figures import percentile

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping

    from bench.rig import Rig

LOOK: Final = 0.25
"""Seconds between two counts of the rows: counting costs the database, too."""

COUNT: Final = "SELECT count(*) FROM notifications_log"
COMMITS: Final = """
SELECT notification_id, extract(epoch FROM pg_xact_commit_timestamp(xmin))::double precision
FROM notifications_log WHERE status = 'delivered'
"""


def commits(running: Rig) -> dict[str, float]:
    """When the row of each delivered notification was committed, in seconds since the epoch, by id."""
    with psycopg.connect(running.postgres.url) as connection:
        return {str(found[0]): float(found[1]) for found in connection.execute(COMMITS).fetchall()}


def watch(
    running: Rig,
    processes: list[subprocess.Popen[bytes]],
    done: Callable[[int], bool],
    deadline: float,
    seen: Callable[[int], None] = lambda _: None,
) -> None:
    """Count the rows until `done` says of their number that it is enough.

    Args:
        running: where they are.
        processes: have to live as long.
        done: asked after each count.
        deadline: seconds.
        seen: told of each count.

    Raises:
        SystemExit: a process ended, or it took too long.
    """
    until = time.monotonic() + deadline
    with psycopg.connect(running.postgres.url, autocommit=True) as connection:
        while True:
            found = connection.execute(COUNT).fetchone()
            rows = int(found[0]) if found else 0
            seen(rows)
            if done(rows):
                return
            if time.monotonic() > until:
                raise SystemExit(f"only {rows} rows after {deadline:g} s")
            for one in processes:
                if one.poll() is not None:
                    raise SystemExit(f"a process ended with {one.returncode} in the middle of its measurement")
            time.sleep(LOOK)


def spans(before: Mapping[str, float], after: Mapping[str, float]) -> tuple[float, float]:
    """Median and 99th percentile, in milliseconds, from one moment of each notification to another."""
    found = [after[key] - moment for key, moment in before.items() if key in after]
    return percentile(found, 0.5) * 1000, percentile(found, 0.99) * 1000
