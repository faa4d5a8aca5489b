"""Replay: a DLQ's backlog sent again by `ringonce replay`, its progress kept in the database."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.figures import Figure
from bench.letters import Letter, letters, put_all
from bench.rig import process
from ringonce.domain.identity import Origin
from ringonce.domain.stages import DLQ, MAIN
from ringonce.kafka import headers as names

if TYPE_CHECKING:
    from bench.rig import Rig

PREFIX: Final = "replay-bench-"
LOOK: Final = 0.02
DEADLINE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Size:
    """So many rounds over so many dead letters."""

    rounds: int = 3
    records: int = 40_000


def dead(letter: Letter, number: int, main: str) -> Letter:
    """The letter as a sender puts it into the DLQ after its last attempt."""
    now = names.millis(time.time())
    texts = {
        names.CHANNEL: "CHANNEL_FIREBASE",
        names.ROUTER_NODE: "bench",
        names.ORIGIN: str(Origin(f"{PREFIX}notification-events", number % 6, number // 6, int(now))),
        names.RETRY_COUNT: "3",
        names.ATTEMPTS: "9",
        names.ERROR_CLASS: "Refused",
        names.ERROR_MESSAGE: "503",
        names.ERROR_STATUS: "503",
        names.ERROR_TIMESTAMP: now,
        names.ORIGINAL_TOPIC: main,
        names.PREVIOUS_TOPIC: f"{main}-retry-5m",
        names.FORWARD_REASON: "exhausted",
    }
    return letter._replace(headers=[(name, text.encode()) for name, text in texts.items()])


def replayed(running: Rig, name: str, main: str, count: int) -> tuple[float, float]:
    """Records per second: from the first published one to the end, and over the whole command."""
    base, began = running.ends(main), time.monotonic()
    first: float | None = None
    command = ["ringonce", "replay", "--channel", "firebase", "--name", name]
    with process(command, running.environment(PREFIX, {})) as replay:
        while replay.poll() is None:
            if first is None and running.ends(main) > base:
                first = time.monotonic()
            if time.monotonic() - began > DEADLINE:
                raise SystemExit(f"the replay was not done after {DEADLINE:g} s")
            time.sleep(LOOK)
        ended = time.monotonic()
    done = running.ends(main) - base
    if replay.returncode or done != count or first is None:
        raise SystemExit(f"the replay ended with {replay.returncode}, {done} of {count} published")
    return count / (ended - first), count / (ended - began)


def measure(running: Rig, size: Size) -> list[Figure]:
    """The same dead letters, replayed under a new name each time."""
    running.truncate()
    topics = running.create_topics(PREFIX, ["firebase"])
    main, dlq = topics.stage("firebase", MAIN), topics.stage("firebase", DLQ)
    put_all(
        running.kafka.bootstrap,
        (dead(letter, number, main) for number, letter in enumerate(letters(dlq, PREFIX[7:], size.records))),
    )
    runs = [replayed(running, f"round-{number}", main, size.records) for number in range(size.rounds)]
    running.delete_topics(PREFIX)
    return [
        Figure("replay_per_s", "records/s", [one[0] for one in runs]),
        Figure("replay_command_per_s", "records/s", [one[1] for one in runs]),
    ]
