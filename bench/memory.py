"""Memory: the resident size of one sender process as it goes on delivering."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.evidence import watch
from bench.figures import Figure
from bench.gauge import resident_bytes
from bench.letters import letters, put_all
from bench.rig import mock, process
from ringonce.domain.stages import MAIN

if TYPE_CHECKING:
    from bench.rig import Rig

PREFIX: Final = "memory-"
DEADLINE: Final = 180.0


@dataclass(frozen=True, slots=True)
class Size:
    """After how many deliveries it is looked at."""

    early: int = 20_000
    late: int = 200_000


def measure(running: Rig, size: Size) -> list[Figure]:
    """Drain a long backlog; its size early on and at the end."""
    running.truncate()
    topic = running.create_topics(PREFIX, ["firebase"]).stage("firebase", MAIN)
    put_all(running.kafka.bootstrap, letters(topic, PREFIX, size.late))
    early: list[int] = []
    with (
        mock() as provider,
        process(["sender", "--channel", "firebase"], running.environment(PREFIX, {"firebase": provider.url})) as sender,
    ):

        def seen(rows: int) -> None:
            if rows >= size.early and not early:
                early.append(resident_bytes(sender.pid))

        watch(running, [sender], lambda rows: rows >= size.late, DEADLINE, seen)
        late = resident_bytes(sender.pid)
    running.delete_topics(PREFIX)
    return [
        Figure("memory_growth", "ratio", [late / early[0]]),
        Figure("memory_mb", "MB", [late / 1e6]),
    ]
