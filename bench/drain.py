"""Drain: a backlog of one channel through one sender, in turns with the textbook design and the HTTP client alone."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bench.evidence import commits, spans, watch
from bench.figures import Figure, ratios, steady_rate
from bench.gauge import cpu_seconds, peak_bytes
from bench.letters import letters, put_all
from bench.rig import mock, process
from bench.textbook import GROUP
from ringonce.domain.stages import MAIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.rig import Rig

DEADLINE: Final = 60.0
PREFIX: Final = "drain-"
SLOW_MS: Final = 20


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it. `rows` are drained each time; the textbook design gets `seconds` each time."""

    rounds: int = 3
    rows: int = 30_000
    seconds: float = 5.0
    requests: int = 40_000


@dataclass(slots=True)
class Drained:
    """One run of a sender: rows per second, CPU in µs per row, peak in MB, dispatch to row in ms."""

    rate: float
    cpu_us: float
    peak_mb: float
    p50_ms: float
    p99_ms: float


@dataclass(slots=True)
class _Meter:
    """CPU time over the rows that were seen to come, the first tenth left out."""

    pid: int
    skip: int
    start: tuple[int, float] | None = None
    end: tuple[int, float] = (0, 0.0)
    peak: int = 0
    rows: int = field(default=0)

    def look(self, rows: int) -> None:
        now = (rows, cpu_seconds(self.pid))
        if self.start is None and rows >= self.skip:
            self.start = now
        if rows > self.rows:
            self.rows, self.end = rows, now
        self.peak = max(self.peak, peak_bytes(self.pid))

    @property
    def cpu_us(self) -> float:
        start = self.start or (0, 0.0)
        return (self.end[1] - start[1]) / max(1, self.end[0] - start[0]) * 1e6


def drain(
    running: Rig,
    prefix: str,
    rows: int,
    knobs: Mapping[str, Any],
    *,
    flags: Sequence[str] = (),
    **settings: str,
) -> Drained:
    """Drain firebase's main topic under `prefix`, from its start, through a fresh sender process.

    Args:
        running: the servers.
        prefix: where `rows` notifications lie.
        rows: how many.
        knobs: the provider's.
        flags: of the sender's command.
        settings: variables for the sender.
    """
    running.truncate()
    running.forget_group(f"{prefix}firebase-sender")
    with mock(**knobs) as provider:
        environment = running.environment(prefix, {"firebase": provider.url}, **settings)
        command = ["sender", "--channel", "firebase", *flags]
        with process(command, environment) as sender:
            meter = _Meter(sender.pid, rows // 10)
            watch(running, [sender], lambda found: found >= rows, DEADLINE, meter.look)
        receipts = provider.receipts()
    times = commits(running)
    return Drained(steady_rate(sorted(times.values())), meter.cpu_us, meter.peak / 1e6, *spans(receipts, times))


def textbook(running: Rig, topic: str, seconds: float, knobs: Mapping[str, Any]) -> float:
    """Rows per second of the textbook design, over `seconds` from its first row on."""
    running.truncate()
    running.forget_group(GROUP)
    first: list[float] = []

    def done(rows: int) -> bool:
        if rows and not first:
            first.append(time.monotonic())
        return bool(first) and time.monotonic() - first[0] >= seconds

    with (
        mock(**knobs) as provider,
        process(
            [
                "python",
                "-m",
                "bench.textbook",
                running.kafka.bootstrap,
                topic,
                running.postgres.url,
                provider.url,
            ],
            os.environ,
        ) as reference,
    ):
        watch(running, [reference], done, DEADLINE)
    return steady_rate(sorted(commits(running).values()))


def http_alone(requests: int, *flags: str) -> dict[str, float]:
    """The HTTP client alone: requests per second, CPU in µs per request."""
    with (
        mock() as provider,
        process(
            ["python", "-m", "bench.http_client", provider.url, str(requests), *flags], os.environ, output=True
        ) as client,
    ):
        output, _ = client.communicate(timeout=DEADLINE)
    if client.returncode:
        raise SystemExit(f"the HTTP client alone ended with {client.returncode}")
    return dict(json.loads(output))


def measure(running: Rig, size: Size) -> list[Figure]:
    """Measure both latencies, in turns."""
    topic = running.create_topics(PREFIX, ["firebase"]).stage("firebase", MAIN)
    put_all(running.kafka.bootstrap, letters(topic, PREFIX, size.rows))
    found: list[Figure] = []
    for latency in (0, SLOW_MS):
        knobs = {"LATENCY_MS": latency}
        ours: list[Drained] = []
        theirs: list[float] = []
        alone: list[dict[str, float]] = []
        together: list[dict[str, float]] = []
        for _ in range(size.rounds):
            ours.append(drain(running, PREFIX, size.rows, knobs))
            theirs.append(textbook(running, topic, size.seconds, knobs))
            if not latency:
                alone.append(http_alone(size.requests))
                together.append(http_alone(size.requests, "one-core"))
        name = f"{latency}ms"
        rates = [one.rate for one in ours]
        found += [
            Figure(f"drain_{name}_per_s", "rows/s", rates),
            Figure(f"textbook_{name}_per_s", "rows/s", theirs),
            Figure(f"drain_vs_textbook_{name}", "ratio", ratios(rates, theirs)),
            Figure(f"drain_{name}_cpu_ms_per_1000", "ms CPU", [one.cpu_us for one in ours]),
            Figure(f"drain_{name}_peak_mb", "MB", [one.peak_mb for one in ours]),
            Figure(f"drain_{name}_to_row_p50_ms", "ms", [one.p50_ms for one in ours]),
            Figure(f"drain_{name}_to_row_p99_ms", "ms", [one.p99_ms for one in ours]),
        ]
        if alone:
            limits = [one["per_s"] for one in alone]
            found += [
                Figure("http_limit_per_s", "requests/s", limits),
                Figure("http_limit_cpu_us", "µs CPU", [one["cpu_us"] for one in alone]),
                Figure("http_one_core_per_s", "requests/s", [one["per_s"] for one in together]),
                Figure("drain_vs_http_limit", "ratio", ratios(rates, limits)),
            ]
    running.delete_topics(PREFIX)
    return found
