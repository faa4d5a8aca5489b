"""What librdkafka is told, for every client of ours; each value that differs from its default has its reason here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SOCKET_TIMEOUT_MS: Final = 10_000
"""How long a request may go unanswered. After a broker has hung, librdkafka can queue the question for its group's
coordinator where nobody sends it. Only this time takes it out of there, and the default of 60 s is twice what a fleet
may take to recover."""

LARGEST_MESSAGE: Final = 128 * 1024 * 1024
"""Our clients' own size limits stand well above any topic's: the topic's limit is the one that counts."""


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """One group membership. `session_timeout` in seconds: how long the group waits for a silent member.

    `max_poll_interval`, in seconds too, is how long a member may do without polling; never less than the session.
    """

    bootstrap: str
    group: str
    client_id: str
    session_timeout: float = 10.0
    max_poll_interval: float = 300.0
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def heartbeat(self) -> float:
        """Seconds between two heartbeats, which also bring news of a rebalance; a joining process causes several."""
        return min(0.5, self.session_timeout / 3)

    @property
    def certain(self) -> float:
        """Seconds since a poll for which the group has not given the member up.

        The group counts the session from the last heartbeat that it got, and that may lie one interval before the poll.
        """
        return self.session_timeout - self.heartbeat

    def librdkafka(self, on_commit: Callable[..., None] | None = None) -> dict[str, Any]:
        """The configuration for `confluent_kafka.Consumer`."""
        return {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "client.id": self.client_id,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",  # a record that was never committed was never done
            "partition.assignment.strategy": "cooperative-sticky",  # eager stops everybody for every change
            "session.timeout.ms": int(self.session_timeout * 1000),  # the default of 45 s is too slow to recover
            "max.poll.interval.ms": int(max(self.session_timeout, self.max_poll_interval) * 1000),
            "heartbeat.interval.ms": int(self.heartbeat * 1000),
            "queued.max.messages.kbytes": 8192,  # the default prefetch of 64 MB alone breaks a memory target
            # Whoever has prefetched that much waits this long before it asks for more: with the default of a second a
            # fast reader gets 8 MB a second and no more.
            "fetch.queue.backoff.ms": 20,
            "fetch.wait.max.ms": 100,
            "fetch.message.max.bytes": 1_048_576,  # a start: the broker returns at least one record, however large
            "receive.message.max.bytes": LARGEST_MESSAGE * 2,
            "fetch.max.bytes": LARGEST_MESSAGE,
            "message.max.bytes": LARGEST_MESSAGE,
            "socket.timeout.ms": SOCKET_TIMEOUT_MS,
            "reconnect.backoff.max.ms": 1000,
            "topic.metadata.refresh.interval.ms": 10_000,
            "allow.auto.create.topics": False,
            **({"on_commit": on_commit} if on_commit else {}),
            **self.extra,
        }


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """One producer: acks=all and idempotent, always."""

    bootstrap: str
    client_id: str
    linger: float = 0.002
    extra: Mapping[str, Any] = field(default_factory=dict)

    def librdkafka(self) -> dict[str, Any]:
        """The configuration for `confluent_kafka.Producer`."""
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": self.client_id,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": self.linger * 1000,
            "message.max.bytes": LARGEST_MESSAGE,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 262_144,
            "message.timeout.ms": 30_000,  # then its fate is unknown, and it is published again
            "socket.timeout.ms": SOCKET_TIMEOUT_MS,
            "reconnect.backoff.max.ms": 1000,
            "allow.auto.create.topics": False,
            **self.extra,
        }
