"""Asks a broker again while it is only not ready yet: a coordinator that moves or loads answers so for a moment."""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from ringonce.errors import ServerUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

TIMEOUT: Final = 10.0
PAUSE: Final = 0.1

PASSING: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)
"""What a broker says when it, or another one, will soon know better."""


def ask(bootstrap: str, question: Callable[[], T]) -> T:
    """The answer, asked for again for up to `TIMEOUT` seconds while the broker is not ready.

    Raises:
        ServerUnreachable: it did not answer, or said no.
    """
    deadline = monotonic() + TIMEOUT
    while True:
        try:
            return question()
        except KafkaException as error:
            found = error.args[0]
            if found.code() not in PASSING or monotonic() > deadline:
                raise ServerUnreachable("Kafka", bootstrap, found.str()) from error
        sleep(PAUSE)
