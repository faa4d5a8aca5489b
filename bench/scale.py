"""Scale: one and two sender processes, in turns, where the provider's time is what limits one.

The load begins when the group is at rest and every process has its share of the topic: what is measured is so many at
work, not how a group comes together.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from confluent_kafka import ConsumerGroupState, KafkaException

from bench.drain import SLOW_MS
from bench.evidence import commits, watch
from bench.figures import Figure, ratios, steady_rate
from bench.letters import letters, put_all
from bench.rig import mock, process
from ringonce.domain.stages import MAIN
from ringonce.kafka.topics import PARTITIONS

if TYPE_CHECKING:
    from bench.rig import Rig

PREFIX: Final = "scale-"
GROUP: Final = f"{PREFIX}firebase-sender"
COMMAND: Final = ("sender", "--channel", "firebase", "--max-in-flight", "16")
DEADLINE: Final = 60.0
LOOK: Final = 0.1


@dataclass(frozen=True, slots=True)
class Size:
    """So many rounds over so many rows, each way."""

    rounds: int = 3
    rows: int = 9_000


def shares(running: Rig, topic: str) -> list[int]:
    """How many of the topic's partitions each member that has any has; none while the group is not at rest."""
    try:
        group = running.admin.describe_consumer_groups([GROUP])[GROUP].result(10)
    except KafkaException:  # its coordinator is not there yet
        return []
    if group.state is not ConsumerGroupState.STABLE:
        return []
    counts = [
        sum(1 for place in member.assignment.topic_partitions if place.topic == topic)
        for member in group.members
        if member.assignment is not None
    ]
    return [count for count in counts if count]


def settle(running: Rig, topic: str, senders: int) -> None:
    """Wait until so many processes share the topic evenly."""
    until = time.monotonic() + DEADLINE
    while (found := shares(running, topic)) != [PARTITIONS // senders] * senders:
        if time.monotonic() > until:
            raise SystemExit(f"{senders} senders share the partitions as {found}")
        time.sleep(LOOK)


def pace(running: Rig, topic: str, senders: int, rows: int) -> float:
    """Rows per second of so many senders, fresh ones, over a load that comes when all of them are there."""
    running.truncate()
    with ExitStack() as stack:
        provider = stack.enter_context(mock(LATENCY_MS=SLOW_MS))
        environment = running.environment(PREFIX, {"firebase": provider.url})
        processes = [stack.enter_context(process(COMMAND, environment)) for _ in range(senders)]
        settle(running, topic, senders)
        put_all(running.kafka.bootstrap, letters(topic, PREFIX, rows))
        watch(running, processes, lambda found: found >= rows, DEADLINE)
    return steady_rate(sorted(commits(running).values()))


def measure(running: Rig, size: Size) -> list[Figure]:
    """The same load through one and through two."""
    topic = running.create_topics(PREFIX, ["firebase"]).stage("firebase", MAIN)
    one, two = [], []
    for _ in range(size.rounds):
        one.append(pace(running, topic, 1, size.rows))
        two.append(pace(running, topic, 2, size.rows))
    running.delete_topics(PREFIX)
    return [
        Figure("scale_one_process_per_s", "rows/s", one),
        Figure("scale_two_processes_per_s", "rows/s", two),
        Figure("scale_two_processes", "ratio", ratios(two, one)),
    ]
