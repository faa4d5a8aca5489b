"""The native stand against itself: real servers, killed and started again, over the same data."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import psycopg
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from ringonce.stand.errors import StandError
from ringonce.stand.kafka import KafkaCluster
from ringonce.stand.local import LocalStand
from ringonce.stand.plan import Plan
from ringonce.stand.ports import free_port, is_free
from ringonce.stand.postgres import PostgresServer
from ringonce.stand.postgres_home import location
from ringonce.stand.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator

# Fetched once per checkout: the same folder that `ringonce stand up` uses.
JARS = Path(__file__).parents[2] / ".stand" / "jars"
TOPIC = "stand-test"
SECONDS = 30.0


def produce(bootstrap: str, value: bytes) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(TOPIC, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(SECONDS) == 0
    assert errors == [None]


def consume(bootstrap: str, group: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([TOPIC])
        values: list[bytes] = []
        deadline = time.monotonic() + SECONDS
        while len(values) < count and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                values.append(message.value() or b"")
        return values
    finally:
        consumer.close()


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(TOPIC, 1)]).values():
        future.result(SECONDS)


def processes_of(directory: Path) -> list[list[str]]:
    """The command lines of all living processes that name the stand directory or its PostgreSQL's folder."""
    marks = (str(directory), str(location(directory)))
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(mark in part for part in line for mark in marks):
            found.append(line)
    return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KafkaCluster]:
    cluster = KafkaCluster(tmp_path / "a stand", jars=JARS)
    yield cluster
    cluster.stop(grace=0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PostgresServer]:
    server = PostgresServer(tmp_path / "a stand")
    yield server
    server.stop()
    server.purge()


@pytest.mark.broker
def test_a_record_outlives_the_broker(cluster: KafkaCluster, tmp_path: Path) -> None:
    """After SIGKILL and a start, and after an orderly stop and a start, what was acknowledged is read again."""
    cluster.start()
    address = cluster.bootstrap
    create_topic(address)
    produce(address, b"first")
    assert consume(address, "before", 1) == [b"first"]

    cluster.kill()
    assert not cluster.running
    cluster.restart()
    assert cluster.bootstrap == address
    produce(address, b"second")
    assert consume(address, "after", 2) == [b"first", b"second"]

    cluster.stop()
    assert processes_of(tmp_path) == []
    cluster.start()
    assert consume(cluster.bootstrap, "again", 2) == [b"first", b"second"]


@pytest.mark.broker
def test_a_paused_broker_says_nothing_until_it_is_resumed(cluster: KafkaCluster) -> None:
    """SIGSTOP leaves the port open and every question unanswered; SIGCONT brings all of it back."""
    cluster.start()
    create_topic(cluster.bootstrap)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce(TOPIC, b"before")
    assert producer.flush(SECONDS) == 0
    cluster.pause()
    producer.produce(TOPIC, b"meanwhile")
    waiting = producer.flush(0.5)
    cluster.resume()
    assert waiting == 1
    assert producer.flush(SECONDS) == 0


@pytest.mark.broker
def test_a_killed_broker_has_let_go_of_its_ports(cluster: KafkaCluster) -> None:
    """When the call returns no thread of the JVM is left: what starts next can listen there."""
    cluster.start()
    port = int(cluster.bootstrap.rpartition(":")[2])
    assert not is_free(port)
    cluster.kill()
    assert is_free(port)


@pytest.mark.broker
def test_another_object_takes_over_a_running_broker(cluster: KafkaCluster, tmp_path: Path) -> None:
    """What one process started, another finds, uses and stops; starting it again starts nothing."""
    cluster.start()
    pid = State(tmp_path / "a stand").entries()["kafka-1"].daemon.pid
    other = KafkaCluster(tmp_path / "a stand", jars=JARS)
    assert other.bootstrap == cluster.bootstrap
    other.start()
    assert State(tmp_path / "a stand").entries()["kafka-1"].daemon.pid == pid
    other.stop()
    assert processes_of(tmp_path) == []


@pytest.mark.broker
def test_three_brokers_survive_the_loss_of_one(tmp_path: Path) -> None:
    """With three brokers and two in sync, a record is still acknowledged while one of them is dead."""
    cluster = KafkaCluster(tmp_path, brokers=3, jars=JARS)
    try:
        cluster.start()
        create_topic(cluster.bootstrap)
        produce(cluster.bootstrap, b"with three")
        cluster.kill(2)
        produce(cluster.bootstrap, b"with two")
        cluster.restart(2)
        assert consume(cluster.bootstrap, "all", 2) == [b"with three", b"with two"]
    finally:
        cluster.stop(grace=0)
    assert processes_of(tmp_path) == []


@pytest.mark.database
def test_a_committed_row_outlives_the_server(server: PostgresServer, tmp_path: Path) -> None:
    """After SIGKILL of everything the server consists of it starts on the same port and recovers its rows."""
    server.start()
    url = server.url
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept (id int)")
        connection.execute("INSERT INTO kept VALUES (1)")

    held = psycopg.connect(url)
    server.kill()
    assert processes_of(tmp_path / "a stand") == []
    with pytest.raises(psycopg.OperationalError):
        held.execute("SELECT 1")
    held.close()
    server.restart()

    assert server.url == url
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT id FROM kept").fetchall() == [(1,)]
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
    server.stop()
    assert processes_of(tmp_path / "a stand") == []


@pytest.mark.database
def test_the_role_owns_its_database_and_is_no_superuser(server: PostgresServer) -> None:
    """Tests may make databases of their own, and meet the limits that production has."""
    server.start()
    with psycopg.connect(server.url) as connection:
        row = connection.execute("SELECT rolsuper, rolcreatedb FROM pg_roles WHERE rolname = current_user").fetchone()
    assert row == (False, True)


@pytest.mark.database
def test_a_paused_server_answers_when_it_is_resumed(server: PostgresServer) -> None:
    """SIGSTOP stops the backends too, so that an open connection hangs and is not lost."""
    server.start()
    with psycopg.connect(server.url) as connection:
        pid = connection.execute("SELECT pg_backend_pid()").fetchone()
        assert pid is not None
        server.pause()
        status = psutil.Process(pid[0]).status()
        server.resume()
        assert status == psutil.STATUS_STOPPED
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.database
def test_roots_data_is_where_no_private_folder_must_be_opened(server: PostgresServer, tmp_path: Path) -> None:
    """The stand changes the permissions of none of the folders above it."""
    above = [tmp_path, *tmp_path.parents]
    before = [folder.stat().st_mode for folder in above]
    server.start()
    assert [folder.stat().st_mode for folder in above] == before
    home = location(tmp_path / "a stand")
    assert (home.parent == Path("/var/tmp")) == (os.geteuid() == 0)  # noqa: S108
    server.stop()
    server.purge()
    assert not home.exists()


@pytest.mark.broker
@pytest.mark.database
def test_up_is_idempotent_and_down_leaves_nothing(tmp_path: Path) -> None:
    """`up` starts what is missing, also after a kill; an external server is left alone; `down` ends what `up` began."""
    plan = Plan(kafka_port=free_port(), postgres_port=free_port(), mocks={})
    stand = LocalStand(tmp_path, {}, plan, jars=JARS)
    try:
        first = {service.name: service for service in stand.up()}
        assert {name: service.condition for name, service in first.items()} == {"kafka-1": "up", "postgres": "up"}
        assert stand.up() == list(first.values())

        PostgresServer(tmp_path).kill()
        assert {each.name: each.condition for each in stand.services()} == {"kafka-1": "up", "postgres": "down"}
        second = {service.name: service for service in stand.up()}
        assert second["kafka-1"] == first["kafka-1"]
        assert second["postgres"].condition == "up"
        assert second["postgres"].pid != first["postgres"].pid

        other = LocalStand(tmp_path / "other", stand.addresses, Plan(kafka_port=free_port(), postgres_port=1, mocks={}))
        assert [service.condition for service in other.up()] == ["external", "external"]
        assert other.down() == []

        with pytest.raises(StandError, match="taken by a program that this stand did not start"):
            LocalStand(tmp_path / "third", {"KAFKA_BOOTSTRAP": stand.addresses["KAFKA_BOOTSTRAP"]}, plan).up()
    finally:
        stopped = stand.down(purge=True)
    assert sorted(stopped) == ["kafka-1", "postgres"]
    assert processes_of(tmp_path) == []
    assert not location(tmp_path).exists()
