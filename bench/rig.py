"""The rig: a stand of its own, a mock provider and one sender, each a process, in a temporary folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from ringonce.channels.registry import CHANNELS
from ringonce.domain.notification import Instant, Notification
from ringonce.domain.stages import MAIN
from ringonce.kafka.codec import encode
from ringonce.kafka.producer import KafkaProducer
from ringonce.kafka.settings import ProducerSettings
from ringonce.kafka.topics import TopicAdmin, TopicNames, specs
from ringonce.stand.kafka import KafkaCluster
from ringonce.stand.ports import free_port
from ringonce.stand.postgres import PostgresServer
from ringonce.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ringonce.kafka.port import PublishFailed

BIN = Path(sys.executable).parent
JARS = Path(__file__).parents[1] / ".stand" / "jars"
SECRET = "bench"  # noqa: S105 - signs what goes to the mock
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Rig:
    """What is running, and how to use it."""

    kafka: KafkaCluster
    postgres: PostgresServer

    def environment(self, prefix: str, mock_port: int) -> dict[str, str]:
        """What the product's commands are told."""
        return {
            **os.environ,
            "KAFKA_BOOTSTRAP": self.kafka.bootstrap,
            "DATABASE_URL": self.postgres.url,
            "RINGONCE_TOPIC_PREFIX": prefix,
            "RINGONCE_LOG_LEVEL": "WARNING",
            "RINGONCE_CHANNELS__FIREBASE__SECRET": SECRET,
            "RINGONCE_CHANNELS__FIREBASE__TARGET": f"http://127.0.0.1:{mock_port}/send",
        }

    def backlog(self, prefix: str, count: int) -> None:
        """Create the topics under `prefix`; put `count` notifications of some 300 bytes into firebase's main topic."""
        names = TopicNames(prefix)
        TopicAdmin(self.kafka.bootstrap).create(specs(names, {"firebase": CHANNELS["firebase"].ladder}))
        producer = KafkaProducer(ProducerSettings(self.kafka.bootstrap, "bench", linger=0.02))
        failures: list[PublishFailed] = []
        topic = names.stage("firebase", MAIN)

        def done(failure: PublishFailed | None) -> None:
            if failure is not None:
                failures.append(failure)

        created = Instant(int(time.time()))
        for number in range(count):
            notification = Notification(
                id=f"{prefix}{number:08d}",
                user_id=f"user-{number % 5000}",
                channel=CHANNELS["firebase"].channel,
                title="Your parcel is on its way",
                body="It left the depot at noon and will be with you between two and four this afternoon. " * 2,
                payload_json='{"parcel":"00340434161094042557"}',
                trace_id=f"{number:032x}",
                created_at=created,
                event_key="parcel:out",
            )
            producer.publish(topic, notification.user_id.encode(), encode(notification), [], done)
            if number % 500 == 0:
                producer.poll(0)
        if producer.flush(60.0) or failures:
            raise SystemExit(f"the backlog could not be produced: {failures[:1]}")

    def rows(self, connection: psycopg.Connection[tuple[int]]) -> int:
        """Rows committed."""
        found = connection.execute("SELECT count(*) FROM notifications_log").fetchone()
        return found[0] if found else 0

    def truncate(self) -> None:
        """Start with an empty history."""
        with psycopg.connect(self.postgres.url) as connection:
            connection.execute("TRUNCATE notifications_log, processed_events, notification_attempts")


@contextmanager
def rig(directory: Path) -> Iterator[Rig]:
    """Kafka and PostgreSQL (fsync on) for the length of the block."""
    kafka = KafkaCluster(directory, jars=JARS)
    postgres = PostgresServer(directory)
    try:
        kafka.start()
        postgres.start()
        migrate(postgres.url)
        yield Rig(kafka, postgres)
    finally:
        kafka.stop()
        postgres.stop()
        postgres.purge()


@contextmanager
def process(arguments: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """One of the product's commands for the length of the block; it must end by itself when asked to."""
    running = subprocess.Popen([BIN / arguments[0], *arguments[1:]], env=environment)
    try:
        yield running
    finally:
        running.send_signal(signal.SIGTERM)
        try:
            running.wait(20.0)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
            raise


@contextmanager
def mock(**faults: object) -> Iterator[int]:
    """A mock provider in a process of its own; its port. `faults` are its knobs."""
    port = free_port()
    environment = {**os.environ, **{name: str(value) for name, value in faults.items()}, "MOCK_SECRET": SECRET}
    with process(["ringonce", "mock", "--name", "firebase", "--port", str(port)], environment):
        deadline = time.monotonic() + 15
        while not _healthy(port):
            if time.monotonic() > deadline:
                raise SystemExit("the mock provider did not start")
            time.sleep(0.02)
        yield port


def _healthy(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=1.0)
    with suppress(OSError):
        connection.request("GET", "/health")
        return connection.getresponse().status == 200  # noqa: PLR2004 - OK
    return False


def resident_bytes(pid: int) -> int:
    """Resident set size of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
