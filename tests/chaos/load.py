"""The load: notifications of every kind, at a steady rate, each with what the broker said of it.

The producer is the product's opposite: it repeats on purpose, sends nonsense and comes too late, and writes down what
it did. Nothing here counts as acknowledged that the broker has not acknowledged.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, Message, Producer
from tests.chaos.nonsense import NONSENSE
from tests.chaos.sent import Fate, Kind, Sent
from tests.fixtures.site import notification

from ringonce.domain.identity import Origin
from ringonce.domain.notification import NANOS, Channel, Instant
from ringonce.kafka.codec import encode
from ringonce.kafka.port import Partition, Record
from ringonce.runtime.envelope import open_record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from tests.chaos.canaries import Canaries
    from tests.fixtures.site import Site

    from ringonce.domain.notification import Notification

PATIENCE: Final = 30.0
"""Seconds after which the broker has not answered."""

TICK: Final = 0.02
RECENT: Final = 40
"""How many records back a repetition reaches."""


def digest(value: bytes | None) -> str:
    """The first 64 bits of a value's SHA-256, in hex."""
    return hashlib.sha256(value or b"").hexdigest()[:16]


class Load:
    """Produces `rate` records a second from `start` until `stop`, in a thread of its own.

    Args:
        site: whose entry topic.
        bootstrap: where the broker is for the load; the faults of a proxy need not be its own.
        random: what chooses; nothing else does.
        canaries: what stands in them and must be seen nowhere.
        rate: records a second.
        mix: the share of each kind; what is left of 1 is plain.
        channels: in turn.
        hosts: further targets of webhook, in turn with its own.
    """

    def __init__(
        self,
        site: Site,
        random: Random,
        canaries: Canaries,
        rate: float,
        mix: Mapping[Kind, float],
        channels: tuple[Channel, ...] = (Channel.FIREBASE, Channel.APNS, Channel.WEBHOOK),
        hosts: tuple[str, ...] = (),
    ) -> None:
        self.rate = rate
        self.sent: list[Sent] = []
        self.kinds: Counter[str] = Counter()
        self.hosts_of: dict[str, str] = {}
        """The host of each webhook notification that has a target of its own."""
        self._site = site
        self._random = random
        self._canaries = canaries
        self._mix = dict(mix)
        self._channels = channels
        self._hosts = hosts
        self._made = 0
        self._recent: deque[tuple[Notification, int]] = deque(maxlen=RECENT)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._producer = Producer(
            {
                "bootstrap.servers": site.bootstrap,
                "client.id": "chaos-load",
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": int(PATIENCE * 1000),
                "log_level": 2,
            }
        )
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Produce nothing more, and wait for the broker's last word.

        Raises:
            whatever ended the thread before.
        """
        self._stopping.set()
        self._thread.join()
        self._producer.flush(PATIENCE + 5.0)
        if self._failure is not None:
            raise self._failure

    def seen(self) -> list[Sent]:
        """Everything whose fate is known so far."""
        with self._lock:
            return list(self.sent)

    @property
    def offered(self) -> int:
        """How many records have been handed over."""
        return self._made

    def _run(self) -> None:
        try:
            started = time.monotonic()
            while not self._stopping.wait(TICK):
                due = int((time.monotonic() - started) * self.rate)
                while self._made < due:
                    self._produce_one()
                self._producer.poll(0)
        except BaseException as error:  # noqa: BLE001 - raised where the thread is waited for
            self._failure = error

    def _produce_one(self) -> None:
        kind = self._kind()
        if kind in {Kind.DUPLICATE, Kind.TWIN} and not self._recent:
            kind = Kind.PLAIN  # there is nothing yet to repeat
        partition = -1
        if kind is Kind.POISON:
            name, make = self._random.choice(list(NONSENSE.items()))
            self.kinds[name] += 1
            value = make(self._random)
            self._hand_over(kind, "", "", value, None, partition)
            return
        if kind in {Kind.DUPLICATE, Kind.TWIN}:
            one, before = self._random.choice(list(self._recent))
            if kind is Kind.TWIN:
                one = notification(0, Channel(one.channel), id=one.id, user_id=one.user_id, body=f"twin {self._made}")
            partition = before if self._random.random() < 0.5 else -1
        else:
            one = self._fresh(kind)
        self.kinds[kind] += 1
        key = one.user_id if partition < 0 and kind is not Kind.DUPLICATE else f"other-{self._made}"
        self._hand_over(kind, one.id, Channel(one.channel).name.lower(), encode(one), key.encode(), partition, one)

    def _kind(self) -> Kind:
        drawn = self._random.random()
        for kind, share in self._mix.items():
            drawn -= share
            if drawn < 0:
                return kind
        return Kind.PLAIN

    def _fresh(self, kind: Kind) -> Notification:
        channel = self._channels[self._made % len(self._channels)]
        fields: dict[str, Any] = {}
        if channel is Channel.WEBHOOK and self._hosts:
            turn = (self._made // len(self._channels)) % (len(self._hosts) + 1)
            if turn:
                fields["target"] = self._canaries.target(f"{self._hosts[turn - 1]}/hook")
                self.hosts_of[f"c-{self._made}"] = self._hosts[turn - 1]
        if kind is Kind.EXPIRED:
            fields["expires_at"] = Instant(int(time.time()) - 1)
        elif kind is Kind.FLEETING:
            end = time.time_ns() + int(self._random.uniform(0.5, 4.0) * NANOS)
            fields["expires_at"] = Instant(end // NANOS, end % NANOS)
        number = self._made
        return notification(
            number,
            channel,
            id=f"c-{number}",
            title=self._canaries.text(),
            body=f"{self._canaries.text()} ({number})",
            payload_json=self._canaries.payload_json(),
            **fields,
        )

    def _hand_over(
        self,
        kind: Kind,
        key: str,
        channel: str,
        value: bytes | None,
        record_key: bytes | None,
        partition: int,
        one: Notification | None = None,
    ) -> None:
        at = time.time()
        self._made += 1

        def report(error: KafkaError | None, message: Message) -> None:
            place = (message.topic() or "", -1 if message.partition() is None else message.partition() or 0)
            offset = message.offset() if error is None else None
            fate = Fate.OK if error is None else Fate.INFO
            root = key
            if error is None and not key:
                root = _root(value, Origin(*place, offset or 0, message.timestamp()[1]))
            with self._lock:
                self.sent.append(
                    Sent(root, channel, kind, fate, *place, -1 if offset is None else offset, digest(value), at)
                )
                if one is not None and kind is Kind.PLAIN and error is None:
                    self._recent.append((one, place[1]))

        while True:
            try:
                self._producer.produce(
                    self._site.names.entry,
                    value,
                    record_key,
                    partition,
                    on_delivery=report,
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                return


def _root(value: bytes | None, origin: Origin) -> str:
    """The root of a record that was produced as nonsense: some of it has a valid id all the same."""
    record = Record(Partition(origin.topic, origin.partition), origin.offset, origin.timestamp_ms, None, value, [])
    return open_record(record, None, time.time()).identity.root
