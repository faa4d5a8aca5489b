"""The bare loop, to compare the router with: consume, produce, and nothing in between.

Value, key and headers are carried over, three headers are added that were made once, and each delivery report is heard.
It decides nothing, commits nothing and could not be used; librdkafka is told exactly what the router tells it.

    python -m bench.bare_loop BOOTSTRAP FROM TO GROUP

runs until SIGTERM.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaError, Producer

from ringonce.kafka.settings import ConsumerSettings, ProducerSettings

if TYPE_CHECKING:
    from types import FrameType

    from confluent_kafka import Message

BATCH: Final = 1000
ADDED: Final = [
    ("origin", b"notification-events/3/123456/1767225600000"),
    ("channel", b"CHANNEL_FIREBASE"),
    ("router-node", b"benchmark-host-12345"),
]


def main(bootstrap: str, source: str, target: str, group: str) -> None:
    """Copy from one topic to another."""
    stopped = False

    def stop(_: int, __: FrameType | None) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    consumer = Consumer(ConsumerSettings(bootstrap, group, "bare-loop").librdkafka())
    producer = Producer(ProducerSettings(bootstrap, "bare-loop").librdkafka())
    acknowledged = 0

    def report(error: KafkaError | None, _: Message) -> None:
        nonlocal acknowledged
        if error is not None:
            raise SystemExit(f"a copy was not taken: {error.name()}")
        acknowledged += 1

    consumer.subscribe([source])
    while not stopped:
        for message in consumer.consume(BATCH, 0.05):
            if message.error():
                raise SystemExit(f"the bare loop cannot consume: {message.error()}")
            headers = [*(message.headers() or ()), *ADDED]
            while True:
                try:
                    producer.produce(target, message.value(), message.key(), on_delivery=report, headers=headers)
                except BufferError:
                    producer.poll(0.01)
                else:
                    break
        producer.poll(0)
    producer.flush(10.0)
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
