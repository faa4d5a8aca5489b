"""Router: a backlog through one router, in turns with a bare consume-produce loop."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.figures import Figure, ratios
from bench.gauge import cpu_seconds
from bench.letters import Letter, letters, put_all
from bench.rig import process
from ringonce.domain.stages import MAIN

if TYPE_CHECKING:
    import subprocess

    from bench.rig import Rig

PREFIX: Final = "router-"
BARE: Final = "bare-loop"
LOOK: Final = 0.03
DEADLINE: Final = 90.0
TRACE: Final = ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it: so many rounds over so many records, each way."""

    rounds: int = 5
    records: int = 200_000


def progress(running: Rig, topic: str, count: int, copier: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Records per second and µs of CPU per record, from the first twentieth to the last that arrives in `topic`."""
    base = running.ends(topic)
    until = time.monotonic() + DEADLINE
    start: tuple[float, int, float] | None = None
    while True:
        arrived, now = running.ends(topic) - base, time.monotonic()
        if arrived * 20 >= count and start is None:
            start = (now, arrived, cpu_seconds(copier.pid))
        if arrived >= count and start is not None:
            done = arrived - start[1]
            return done / (now - start[0]), (cpu_seconds(copier.pid) - start[2]) / done * 1e6
        if now > until or copier.poll() is not None:
            raise SystemExit(f"only {arrived} of {count} records were copied")
        time.sleep(LOOK)


def measure(running: Rig, size: Size) -> list[Figure]:
    """Measure both, in turns."""
    names = running.create_topics(PREFIX, ["firebase"])
    target = names.stage("firebase", MAIN)
    load = [
        Letter(one.id, one.topic, one.key, one.value, (TRACE,)) for one in letters(names.entry, PREFIX, size.records)
    ]
    put_all(running.kafka.bootstrap, load)
    environment = running.environment(PREFIX, {})
    bare = ["python", "-m", "bench.bare_loop", running.kafka.bootstrap, names.entry, target, BARE]
    routed, copied = [], []
    for _ in range(size.rounds):
        running.forget_group(f"{PREFIX}notification-router")
        with process(["router", "--channels", "firebase"], environment) as router:
            routed.append(progress(running, target, size.records, router))
        running.forget_group(BARE)
        with process(bare, os.environ) as loop:
            copied.append(progress(running, target, size.records, loop))
    running.delete_topics(PREFIX)
    rates, limits = [one[0] for one in routed], [one[0] for one in copied]
    return [
        Figure("router_per_s", "records/s", rates),
        Figure("bare_loop_per_s", "records/s", limits),
        Figure("router_vs_bare_loop", "ratio", ratios(rates, limits)),
        Figure("router_cpu_us", "µs CPU", [one[1] for one in routed]),
        Figure("bare_loop_cpu_us", "µs CPU", [one[1] for one in copied]),
        Figure("router_record_bytes", "bytes", [sum(len(one.value) for one in load) / len(load)]),
    ]
