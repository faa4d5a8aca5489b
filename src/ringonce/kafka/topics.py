"""The topics: their names, how they are made, and whether those that exist can carry our promises."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from ringonce.domain.stages import DLQ, MAIN
from ringonce.errors import ConfigurationError, RingonceError, ServerUnreachable
from ringonce.kafka.embedded import is_embedded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined]

    from ringonce.domain.stages import Ladder

DAY_MS: Final = 86_400_000
ENTRY_BYTES: Final = 1_048_588
"""The entry topic's max.message.bytes: Kafka's own default."""
HEADROOM: Final = 64 * 1024
"""What every topic behind the entry topic accepts more, so that a forward with its headers fits."""
PARTITIONS: Final = 6
EMBEDDED: Final = (
    "is on an embedded broker: four partitions, one copy in memory, no settings;"
    " conclude nothing about durability or rebalances"
)
"""The one finding about a topic there."""


@dataclass(frozen=True, slots=True)
class TopicNames:
    """The names of all topics under one prefix."""

    prefix: str = ""

    @property
    def entry(self) -> str:
        """Where producers publish."""
        return f"{self.prefix}notification-events"

    @property
    def entry_dlq(self) -> str:
        """What the router could not forward."""
        return f"{self.prefix}notification-events-dlq"

    def stage(self, channel: str, stage: str) -> str:
        """The topic of a channel's stage."""
        stem = f"{self.prefix}notification-{channel}"
        return stem if stage == MAIN else f"{stem}-{stage}"


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic as it should be."""

    name: str
    append_time: bool = False
    max_message_bytes: int = ENTRY_BYTES + HEADROOM
    retention_ms: int = 7 * DAY_MS

    def config(self, replication: int) -> dict[str, str]:
        """The topic's configuration."""
        return {
            "message.timestamp.type": "LogAppendTime" if self.append_time else "CreateTime",
            "max.message.bytes": str(self.max_message_bytes),
            "retention.ms": str(self.retention_ms),
            "min.insync.replicas": "2" if replication >= 3 else "1",  # noqa: PLR2004 - a majority of three
            "cleanup.policy": "delete",
        }


def specs(names: TopicNames, ladders: Mapping[str, Ladder]) -> list[TopicSpec]:
    """Every topic of the fleet, from each channel's ladder: 4n + 2 for n channels with two retry stages."""
    found = [
        TopicSpec(names.entry, max_message_bytes=ENTRY_BYTES),
        TopicSpec(names.entry_dlq, retention_ms=30 * DAY_MS),
    ]
    for channel, ladder in ladders.items():
        found += [
            TopicSpec(names.stage(channel, stage.name), append_time=stage.name != MAIN) for stage in ladder.consumed()
        ]
        found.append(TopicSpec(names.stage(channel, DLQ), retention_ms=30 * DAY_MS))
    return found


class Severity(Enum):
    """What a finding means for a process that is about to start."""

    REFUSED = "refused"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a topic that is not as it should be."""

    topic: str
    severity: Severity
    text: str

    def __str__(self) -> str:
        return f"topic {self.topic}: {self.text}"


class TopicsStay(RingonceError):  # noqa: N818 - what happens
    """The broker cannot delete topics."""

    exit_code = 4


@dataclass(frozen=True, slots=True)
class Keeping:
    """For how long a topic can still hold a record, in seconds.

    `retention` is None when nothing is ever deleted for its age; a segment is deleted whole, so a record may stay for
    `segment` longer.
    """

    retention: float | None
    segment: float

    @property
    def longest(self) -> float | None:
        """The two together; None for ever."""
        return None if self.retention is None else self.retention + self.segment


class Untold(RingonceError):  # noqa: N818 - what is the case
    """The broker does not tell what it keeps."""

    exit_code = 1


class TopicAdmin:
    """Creates, deletes and checks topics.

    An embedded broker knows neither CreateTopics nor a topic's settings, and hangs up on whoever asks: it is known by
    its cluster id, and not asked.

    Raises, from every method:
        ServerUnreachable: the broker did not answer in time.
    """

    def __init__(self, bootstrap: str, timeout: float = 10.0) -> None:
        self._bootstrap = bootstrap
        self._timeout = timeout
        self._client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": 10_000})

    def _unreachable(self, error: Exception) -> ServerUnreachable:
        inner = error.args[0] if error.args else error
        reason = inner.str() if isinstance(inner, KafkaError) else str(error)
        return ServerUnreachable("Kafka", self._bootstrap, reason or type(error).__name__)

    def _metadata(self, topic: str | None = None) -> ClusterMetadata:
        try:
            return self._client.list_topics(topic, timeout=self._timeout)
        except KafkaException as error:
            raise self._unreachable(error) from error

    def brokers(self) -> int:
        """How many brokers the cluster has; the first thing to ask, because it shows that one is there."""
        return len(self._metadata().brokers)

    def existing(self, names: Iterable[str]) -> set[str]:
        """Which of these topics are there."""
        topics = self._metadata().topics
        return {name for name in names if name in topics and topics[name].error is None}

    def keeping(self, names: Iterable[str]) -> dict[str, Keeping]:
        """For how long each of these topics that is there holds its records.

        Raises:
            Untold: the broker is an embedded one.
        """
        if is_embedded(self._metadata().cluster_id):
            raise Untold("the embedded broker does not tell for how long it keeps records")
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(self.existing(names))]
        found = {}
        for resource, future in (self._client.describe_configs(resources) if resources else {}).items():
            try:
                entries = future.result(timeout=self._timeout)
            except KafkaException as error:
                raise self._unreachable(error) from error
            retention = int(entries["retention.ms"].value)
            deletes = "delete" in entries["cleanup.policy"].value and retention >= 0
            found[resource.name] = Keeping(
                retention / 1000 if deletes else None, int(entries["segment.ms"].value) / 1000
            )
        return found

    def create(self, wanted: Sequence[TopicSpec], partitions: int = PARTITIONS) -> list[str]:
        """Create what is missing, with replication 3 where there are three brokers; the names of the new ones."""
        metadata = self._metadata()
        if is_embedded(metadata.cluster_id):
            missing = [spec.name for spec in wanted if spec.name not in metadata.topics]
            for name in missing:
                self._metadata(name)  # there, to be asked for is to be made
            return missing
        replication = 3 if len(metadata.brokers) >= 3 else 1  # noqa: PLR2004 - the design's replication
        requests = [NewTopic(spec.name, partitions, replication, config=spec.config(replication)) for spec in wanted]
        return self._carry_out(self._client.create_topics(requests), ignore=KafkaError.TOPIC_ALREADY_EXISTS)

    def delete(self, names: Sequence[str]) -> list[str]:
        """Delete those that exist; their names.

        Raises:
            TopicsStay: the broker is an embedded one.
        """
        if is_embedded(self._metadata().cluster_id):
            raise TopicsStay("the embedded broker cannot delete topics: started again, it has none")
        return self._carry_out(self._client.delete_topics(list(names)), ignore=KafkaError.UNKNOWN_TOPIC_OR_PART)

    def _carry_out(self, futures: dict[str, Any], ignore: int) -> list[str]:
        done = []
        for name, future in futures.items():
            try:
                future.result(timeout=self._timeout)
            except KafkaException as error:
                if error.args[0].code() != ignore:
                    raise self._unreachable(error) from error
            else:
                done.append(name)
        return done

    def require(self, topic: str) -> None:
        """See that a topic is there.

        Raises:
            ConfigurationError: it is not.
        """
        found = self._metadata().topics.get(topic)
        if found is None or found.error is not None:
            raise ConfigurationError([f"topic {topic}: does not exist; `ringonce topics create` makes it"])

    def check(self, wanted: Sequence[TopicSpec], partitions: int = PARTITIONS) -> list[Finding]:
        """Compare the topics that exist with how they should be."""
        metadata = self._metadata()
        embedded = is_embedded(metadata.cluster_id)
        findings, present = [], []
        for spec in wanted:
            topic = metadata.topics.get(spec.name)
            if topic is None or topic.error is not None:
                findings.append(
                    Finding(spec.name, Severity.REFUSED, "does not exist; `ringonce topics create` makes it")
                )
                continue
            if embedded:
                findings.append(Finding(spec.name, Severity.WARNING, EMBEDDED))
                continue
            present.append(spec)
            if len(topic.partitions) < partitions:
                text = f"has {len(topic.partitions)} partitions, fewer than {partitions}"
                findings.append(Finding(spec.name, Severity.WARNING, text))
            replicas = min((len(partition.replicas) for partition in topic.partitions.values()), default=0)
            if replicas < 3:  # noqa: PLR2004 - the design's replication
                text = f"has {replicas} replica(s): an acknowledged record can be lost with its broker"
                findings.append(Finding(spec.name, Severity.WARNING, text))
        return findings + self._check_configs(present)

    def _check_configs(self, wanted: Sequence[TopicSpec]) -> list[Finding]:
        resources = {ConfigResource(ResourceType.TOPIC, spec.name): spec for spec in wanted}
        findings = []
        for resource, future in (self._client.describe_configs(list(resources)) if resources else {}).items():
            spec = resources[resource]
            try:
                entries = future.result(timeout=self._timeout)
            except KafkaException as error:
                raise self._unreachable(error) from error
            if spec.append_time and entries["message.timestamp.type"].value != "LogAppendTime":
                text = "message.timestamp.type must be LogAppendTime, or its due times do not rise"
                findings.append(Finding(spec.name, Severity.REFUSED, text))
            limit = int(entries["max.message.bytes"].value)
            if limit < spec.max_message_bytes:
                text = f"max.message.bytes is {limit}, a forward with its headers needs {spec.max_message_bytes}"
                findings.append(Finding(spec.name, Severity.REFUSED, text))
        return findings
