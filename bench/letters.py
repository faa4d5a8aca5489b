"""The notifications that are sent: some 300 bytes each, made before the clock runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka import KafkaError, Producer

from ringonce.channels.registry import CHANNELS
from ringonce.domain.notification import Instant, Notification
from ringonce.kafka.codec import encode
from ringonce.kafka.settings import ProducerSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from confluent_kafka import Message

USERS: Final = 5_000
FLUSH: Final = 60.0
BODY: Final = (
    "It left the depot at noon and will be with you between two and four this afternoon. "
    "You can follow it on the map, and choose another day until one."
)


class Letter(NamedTuple):
    """A record to be produced; `id` is the notification's."""

    id: str
    topic: str
    key: bytes
    value: bytes
    headers: Sequence[tuple[str, bytes]] = ()


def notification(id_: str, number: int, channel: str = "firebase", target: str = "") -> Notification:
    """A notification like those that are really sent."""
    return Notification(
        id=id_,
        user_id=f"user-{number % USERS}",
        channel=CHANNELS[channel].channel,
        title="Your parcel is on its way",
        body=BODY,
        payload_json='{"parcel":"00340434161094042557"}',
        trace_id=f"{number:032x}",
        created_at=Instant(int(time.time())),
        event_key="parcel:out",
        target=target,
    )


def letters(topic: str, stem: str, count: int, channels: Sequence[str] = ("firebase",)) -> list[Letter]:
    """So many notifications for a topic, the channels in turns; ids are `stem` and a number."""
    made = (notification(f"{stem}{number:08d}", number, channels[number % len(channels)]) for number in range(count))
    return [Letter(one.id, topic, one.user_id.encode(), encode(one)) for one in made]


class Post:
    """Produces letters; acks=all."""

    def __init__(self, bootstrap: str, linger: float = 0.02) -> None:
        self._failures: list[KafkaError] = []
        self._producer = Producer({**ProducerSettings(bootstrap, "bench", linger=linger).librdkafka(), "log_level": 3})

    def put(self, letter: Letter) -> None:
        """Hand one over."""
        while True:
            try:
                self._producer.produce(
                    letter.topic, letter.value, letter.key, on_delivery=self._report, headers=list(letter.headers)
                )
            except BufferError:
                self._producer.poll(0.05)
            else:
                return

    def poll(self) -> None:
        """Take note of what was acknowledged."""
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all is acknowledged.

        Raises:
            SystemExit: something was not.
        """
        if self._producer.flush(FLUSH) or self._failures:
            raise SystemExit(f"the load could not be produced: {self._failures[:1]}")

    def _report(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error)


def put_all(bootstrap: str, load: Iterable[Letter]) -> None:
    """Produce a backlog."""
    post = Post(bootstrap)
    for number, letter in enumerate(load):
        post.put(letter)
        if number % 500 == 0:
            post.poll()
    post.flush()
