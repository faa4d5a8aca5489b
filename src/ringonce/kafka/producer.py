"""The producer: hands records over, and tells each one's fate once.

A delivery report is the only proof that a record is durable. An idempotent producer can go fatal (its sequence is
broken); it is then replaced, and what it had not delivered is reported as uncertain, to be published again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Producer

from ringonce.kafka.port import Headers, PublishFailed, PublishUncertain, Unpublishable

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Message

    from ringonce.kafka.settings import ProducerSettings

Told: TypeAlias = "Callable[[str | None], None]"
"""Hears of a record's fate: nothing, or the class of what went wrong."""

log = logging.getLogger(__name__)

NEVER: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
    }
)
"""Errors that are about the record itself: it can never be published as it is."""


def _telling(told: Told, done: Callable[[PublishFailed | None], None]) -> Callable[[PublishFailed | None], None]:
    def both(failure: PublishFailed | None) -> None:
        told(None if failure is None else type(failure).__name__)
        done(failure)

    return both


def judge(error: KafkaError) -> PublishFailed:
    """What a delivery report's error means for the record."""
    kind = Unpublishable if error.code() in NEVER else PublishUncertain
    return kind(error.name())


class KafkaProducer:
    """Publishes for one thread; `poll` runs the callbacks in the thread that calls it."""

    def __init__(self, settings: ProducerSettings) -> None:
        self._settings = settings
        self._fatal = False
        self.timed: Callable[[float], None] | None = None
        """Told how many seconds each acknowledged record took, where somebody counts them."""
        self.traced: Callable[[str, Headers], tuple[Headers, Told]] | None = None
        """Given each record's topic and headers, where somebody traces them: the headers that it goes with, and who is
        told of its fate."""
        self._producer = self._make()

    def _make(self) -> Producer:
        return Producer({**self._settings.librdkafka(), "error_cb": self._on_error}, logger=log)

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = True
        log.warning("producer: %s", error.name(), extra={"reason": error.str()})

    def publish(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        done: Callable[[PublishFailed | None], None],
        timestamp_ms: int = 0,
    ) -> None:
        """See `Publisher.publish`."""
        if self.traced is not None:
            headers, told = self.traced(topic, headers)
            done = _telling(told, done)

        def report(error: KafkaError | None, message: Message) -> None:
            if error is None and self.timed is not None and (seconds := message.latency()) is not None:
                self.timed(seconds)
            done(None if error is None else judge(error))

        wider: Any = headers  # the library takes text too, and lists are invariant
        try:
            self._producer.produce(topic, value, key, on_delivery=report, timestamp=timestamp_ms, headers=wider)
        except BufferError:
            done(PublishUncertain("the producer's queue is full"))
        except KafkaException as error:
            done(judge(error.args[0]))
        except (ValueError, TypeError, UnicodeEncodeError) as error:
            done(Unpublishable(type(error).__name__))

    def poll(self, timeout: float) -> int:
        """Run the callbacks of what has been decided, waiting up to `timeout` seconds for the first one."""
        served = self._producer.poll(timeout)
        if self._fatal:
            self._replace()
        return served

    def _replace(self) -> None:
        log.error("the idempotent producer has gone fatal and is replaced; what it held is published again")
        failed, self._producer, self._fatal = self._producer, self._make(), False
        failed.purge()
        failed.flush(5.0)

    def flush(self, timeout: float) -> int:
        """Wait up to `timeout` seconds; the number of records whose fate is still open."""
        return self._producer.flush(timeout)

    def __len__(self) -> int:
        """Records handed over whose fate is open."""
        return len(self._producer)
