"""The chaos run: `python -m tests.chaos.run`, or `make chaos`, `make chaos-long`.

Prints its seed, what it did and one line for each invariant. Exits 1 when one is broken, or a declared fault was never
hit. The same seed gives the same faults in the same order at the same counts; what the machine makes of the time
between them is its own.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import click
from tests.chaos.arena import Terrain, ground
from tests.chaos.episode import BRISK, MIX, PATIENT, run_episode
from tests.chaos.faults import SHORT
from tests.chaos.report import Row, write
from tests.chaos.specials import SPECIALS
from tests.chaos.storms import STORMS
from tests.chaos.verdicts import recovery, verdicts

from ringonce.mock.memory import Kind as CallKind
from ringonce.stand.errors import StandError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.episode import Evidence, Timing
    from tests.chaos.faults import Fault

MEMORY: Final = "/dev/shm"  # noqa: S108 - a folder of our own is made in it
"""Where the brokers' data is, if there is such a place: a disk that stalls under three of them says nothing of us."""

EVERYTHING: Final = (*SHORT, *STORMS, *SPECIALS)


def once(faults: Sequence[Fault], seed: int, terrain: Terrain, folder: Path, timing: Timing = PATIENT) -> list[Row]:
    """One run with these faults, in an order that the seed decides; a row for each fault, red where the run was."""
    random = Random(seed)  # noqa: S311 - to be repeated, not to be secret
    order = list(faults)
    random.shuffle(order)
    rows: list[Row] = []

    def judge(seen: Evidence) -> None:
        lines = verdicts(seen)
        for verdict in lines:
            click.echo(f"{'' if verdict.ok else 'RED '}{verdict}")
        click.echo(f"  {len(seen.sent)} records in {seen.seconds:.0f} s; hits: {json.dumps(dict(seen.hits))}")
        acts = [call for calls in seen.calls.values() for call in calls if call.kind == CallKind.ACT]
        beyond = len(acts) - len({act.key for act in acts})
        rows.extend(
            Row(
                fault=turn.fault.name,
                seed=seed,
                hits=seen.hits.get(turn.fault.name, 0),
                ids=len({one.key for one in seen.sent}),
                rows=len(seen.rows),
                beyond=beyond,
                allowed=seen.damage.allowance,
                recovery=recovery(seen, turn),
                broken=[str(verdict) for verdict in lines if not verdict.ok],
            )
            for turn in seen.turns
        )

    with ground(folder / "servers", terrain) as on:
        run_episode(on, order, random, folder / "run", click.echo, timing=timing, judge=judge)
    return rows


def several(faults: Sequence[Fault], seed: int, minutes: float, kept: Path, folder: Path) -> list[Row]:
    """A run for each fault, until `minutes` are over; what is `kept` from an earlier call is not run again."""
    rows = [Row(**row) for row in json.loads(kept.read_text())] if kept.exists() else []
    end = time.monotonic() + minutes * 60
    for number, fault in enumerate(faults):
        if any(row.fault == fault.name and not row.broken for row in rows):
            continue
        if time.monotonic() > end:
            click.echo("the time is over; the same command goes on from here")
            break
        rows = [row for row in rows if row.fault != fault.name]
        lacks = fault.lacks()
        if lacks:
            click.echo(f"{fault.name}: cannot be produced here: {lacks}")
            rows.append(Row(fault=fault.name, seed=0, lacks=lacks))
        else:
            click.echo(f"{fault.name} (seed {seed + number})")
            try:
                rows += once([fault], seed + number, fault.terrain, folder / str(number))
            except StandError as error:
                click.echo(f"RED {error}")
                rows.append(Row(fault=fault.name, seed=seed + number, broken=["its servers did not come up"]))
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps([row.as_json() for row in rows], indent=1))
    return rows


@click.command()
@click.option("--seed", type=int, help="Of the schedule; without it a fresh one, which is printed.")
@click.option("--only", multiple=True, help="Faults whose name contains this, all in one run.")
@click.option("--brisk", is_flag=True, help="Do not wait long for what does not come.")
@click.option("--long", "is_long", is_flag=True, help="Every fault there is, each in a run of its own.")
@click.option("--minutes", type=float, default=240.0, show_default=True, help="After which no further run begins.")
@click.option("--results", type=click.Path(path_type=Path), default=Path(".stand/chaos-long.json"), show_default=True)
@click.option("--page", type=click.Path(path_type=Path), help="Write the table of the long run into this page.")
def main(
    *,
    seed: int | None,
    only: tuple[str, ...],
    brisk: bool,
    is_long: bool,
    minutes: float,
    results: Path,
    page: Path | None,
) -> None:
    """Break things under load, and see that the promises hold."""
    logging.disable(logging.CRITICAL)  # what the harness's own Kafka clients think of a broker that is being killed
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    # Whoever ends this, ends what it has started as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    click.echo(f"seed {seed}")
    chosen = [fault for fault in EVERYTHING if any(name in fault.name for name in only)]
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="ringonce-chaos-", dir=memory) as folder:
        if is_long:
            rows = several(chosen or EVERYTHING, seed, minutes, results, Path(folder))
            if page:
                write(rows, page)
        else:
            faults = chosen or list(SHORT)
            click.echo(f"{len(faults)} faults, and input of {len(MIX)} kinds that is not plain")
            terrain = faults[0].terrain if chosen else Terrain.PLAIN
            rows = once(faults, seed, terrain, Path(folder), BRISK if brisk else PATIENT)
    broken = [row for row in rows if row.broken]
    click.echo(f"chaos: {'RED' if broken or not rows else 'every invariant held'}, seed {seed}")
    sys.exit(1 if broken or not rows else 0)


if __name__ == "__main__":
    main()
