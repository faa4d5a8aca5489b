"""The rig: a stand of its own in a temporary folder, and the processes that are measured on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from ringonce.channels.registry import CHANNELS
from ringonce.kafka.topics import PARTITIONS, TopicAdmin, TopicNames, specs
from ringonce.stand.kafka import KafkaCluster
from ringonce.stand.ports import free_port
from ringonce.stand.postgres import PostgresServer
from ringonce.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

BIN: Final = Path(sys.executable).parent
ROOT: Final = Path(__file__).parents[1]
JARS: Final = ROOT / ".stand" / "jars"
SECRET: Final = "bench"  # noqa: S105 - signs what goes to the mock
PAUSE: Final = 0.02
STARTING: Final = 20.0
STOPPING: Final = 30.0


@dataclass(frozen=True)
class Rig:
    """What is running, and how to use it."""

    kafka: KafkaCluster
    postgres: PostgresServer
    admin: AdminClient

    def environment(self, prefix: str, targets: Mapping[str, str], **extra: str) -> dict[str, str]:
        """What the product's commands are told; `targets` are the providers' URLs by channel."""
        told = {
            **os.environ,
            "KAFKA_BOOTSTRAP": self.kafka.bootstrap,
            "DATABASE_URL": self.postgres.url,
            "RINGONCE_TOPIC_PREFIX": prefix,
            "RINGONCE_LOG_LEVEL": "ERROR",
            **extra,
        }
        for channel, url in targets.items():
            told[f"RINGONCE_CHANNELS__{channel.upper()}__TARGET"] = url
            told[f"RINGONCE_CHANNELS__{channel.upper()}__SECRET"] = SECRET
        return told

    def create_topics(self, prefix: str, channels: Sequence[str]) -> TopicNames:
        """Create the entry topics and those of `channels` under `prefix`, as the product does."""
        names = TopicNames(prefix)
        TopicAdmin(self.kafka.bootstrap).create(specs(names, {name: CHANNELS[name].ladder for name in channels}))
        return names

    def delete_topics(self, prefix: str) -> None:
        """Delete what lies under `prefix`: what a scenario leaves must not slow the next one."""
        topics = [name for name in self.admin.list_topics(timeout=10).topics if name.startswith(prefix)]
        for deleted in self.admin.delete_topics(topics).values() if topics else ():
            deleted.result(10)

    def forget_group(self, group: str) -> None:
        """Let a group begin again at the start; its members must be gone."""
        with suppress(KafkaException):  # it was never there
            self.admin.delete_consumer_groups([group])[group].result(10)

    def ends(self, topic: str) -> int:
        """How many records were ever appended to a topic."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(topic, number): latest for number in range(PARTITIONS)}
        return sum(int(future.result(10).offset) for future in self.admin.list_offsets(asked).values())

    def truncate(self) -> None:
        """Start with empty tables."""
        with psycopg.connect(self.postgres.url) as connection:
            connection.execute(
                "TRUNCATE notifications_log, processed_events, delivery_attempts, notification_attempts, replays"
            )


@contextmanager
def rig(directory: Path) -> Iterator[Rig]:
    """Kafka and PostgreSQL (fsync on) for the length of the block.

    PostgreSQL keeps the time of each commit, so that a row's is known without touching the product.
    """
    kafka = KafkaCluster(directory, jars=JARS)
    postgres = PostgresServer(directory)
    try:
        kafka.start()
        postgres.start()
        with psycopg.connect(postgres.superuser_url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET track_commit_timestamp = on")
        postgres.restart()
        migrate(postgres.url)
        yield Rig(kafka, postgres, AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0}))
    finally:
        kafka.stop()
        postgres.stop()
        postgres.purge()


@contextmanager
def process(
    arguments: Sequence[str], environment: Mapping[str, str], *, output: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """One of the product's commands, or with `python` first a module of ours, for the length of the block.

    It is asked to stop at the block's end, and has to do so by itself.
    """
    running = subprocess.Popen(
        [BIN / arguments[0], *arguments[1:]],
        env=dict(environment),
        cwd=ROOT,
        stdout=subprocess.PIPE if output else subprocess.DEVNULL,
    )
    try:
        yield running
    finally:
        if running.poll() is None:
            running.send_signal(signal.SIGTERM)
        try:
            running.wait(STOPPING)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
            raise


@dataclass(frozen=True)
class Mock:
    """A mock provider in a process of its own."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Where deliveries go."""
        return f"http://{self.host}:{self.port}/send"

    def chaos(self, **knobs: object) -> None:
        """Turn its knobs."""
        self._ask("POST", "/chaos", json.dumps(knobs).encode())

    def reset(self) -> None:
        """Let it forget its deliveries."""
        self._ask("POST", "/reset")

    def stats(self) -> dict[str, object]:
        """Its counts."""
        return dict(json.loads(self._ask("GET", "/stats")))

    def receipts(self) -> dict[str, float]:
        """When each Idempotency-Key was first acted on, in seconds since the epoch."""
        found: dict[str, float] = {}
        seen = 0
        while lines := self._ask("GET", f"/acts?since={seen}").splitlines():
            for line in lines:
                act = json.loads(line)
                found.setdefault(act["key"], act["wall"])
                seen = act["number"]
        return found

    def healthy(self) -> bool:
        """Whether it answers."""
        try:
            return bool(self._ask("GET", "/health"))
        except OSError:
            return False

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        connection = HTTPConnection(self.host, self.port, timeout=10.0)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status != 200:  # noqa: PLR2004 - OK
            raise SystemExit(f"the mock provider answered {answer.status} to {path}")
        return content


@contextmanager
def mock(name: str = "firebase", host: str = "127.0.0.1", **knobs: Any) -> Iterator[Mock]:
    """A mock provider for the length of the block; `knobs` are its faults from the start."""
    provider = Mock("127.0.0.1", free_port())
    environment = {**os.environ, **{knob: str(value) for knob, value in knobs.items()}, "MOCK_SECRET": SECRET}
    command = ["ringonce", "mock", "--name", name, "--host", host, "--port", str(provider.port)]
    with process(command, environment):
        deadline = time.monotonic() + STARTING
        while not provider.healthy():
            if time.monotonic() > deadline:
                raise SystemExit("the mock provider did not start")
            time.sleep(PAUSE)
        yield provider
