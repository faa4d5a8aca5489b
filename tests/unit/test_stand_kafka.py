"""What the stand gives to Kafka and reads from it, and what it says when Kafka cannot run here."""

from __future__ import annotations

import socket
import stat
import struct
import threading
from typing import TYPE_CHECKING

import pytest

from ringonce.stand.errors import StandError
from ringonce.stand.java import Java
from ringonce.stand.kafka import KafkaCluster
from ringonce.stand.kafka_config import Node, properties
from ringonce.stand.kafka_jars import KafkaJars
from ringonce.stand.kafka_probe import known_brokers
from ringonce.stand.ports import LOOPBACK, free_port, is_free, require_free

if TYPE_CHECKING:
    from pathlib import Path


def program(path: Path, script: str) -> Path:
    """A program of a few lines of shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def answer_once(answer: bytes) -> int:
    """The port of a server that reads one request and gives `answer`."""
    listener = socket.create_server((LOOPBACK, 0))

    def serve() -> None:
        with listener, listener.accept()[0] as connection:
            connection.recv(1024)
            connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])


def metadata(*nodes: int, correlation: int = 7) -> bytes:
    """A Metadata answer, version 1, of a cluster of `nodes`."""
    body = struct.pack(">ii", correlation, len(nodes))
    for node in nodes:
        body += struct.pack(">ih", node, 9) + b"127.0.0.1" + struct.pack(">ih", 9092, -1)
    body += struct.pack(">ii", 1, 0)
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (metadata(1, 2, 3), {1, 2, 3}),
        (metadata(), set()),
        (metadata(1, correlation=8), set()),
        (metadata(1, 2)[:30], set()),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", set()),
        (b"", set()),
    ],
)
def test_the_probe_reads_brokers_and_survives_strangers(answer: bytes, expected: set[int]) -> None:
    assert known_brokers(LOOPBACK, answer_once(answer)) == expected


def test_the_probe_takes_silence_for_no(tmp_path: Path) -> None:
    assert tmp_path.is_dir()
    assert known_brokers(LOOPBACK, free_port()) == set()


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, 1, 1), (3, 3, 2)])
def test_replication_follows_the_number_of_brokers(tmp_path: Path, brokers: int, replicas: int, in_sync: int) -> None:
    nodes = [Node(number, 19091 + number, 29091 + number, tmp_path) for number in range(1, brokers + 1)]
    lines = properties(nodes[0], nodes, tmp_path / "data", {}).splitlines()
    assert f"default.replication.factor={replicas}" in lines
    assert f"offsets.topic.replication.factor={replicas}" in lines
    assert f"min.insync.replicas={in_sync}" in lines
    assert "auto.create.topics.enable=false" in lines


def test_settings_of_the_caller_win_and_any_path_is_written_as_java_reads_it(tmp_path: Path) -> None:
    node = Node(1, 19092, 29092, tmp_path)
    text = properties(node, [node], tmp_path / "a b\\ü😀", {"num.partitions": "2"})
    assert "num.partitions=2\n" in text
    assert "num.partitions=6" not in text
    assert "a b\\\\\\u00fc\\ud83d\\ude00\n" in text


def test_a_free_port_lies_where_no_outgoing_connection_takes_it() -> None:
    port = free_port()
    assert port < 32_768
    with socket.create_server((LOOPBACK, port)):
        assert not is_free(port)
        with pytest.raises(StandError, match=f"kafka-1: port {port} is taken"):
            require_free(port, "kafka-1")
    assert is_free(port)


def test_old_java_is_refused_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin" / "java", "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(StandError, match=r"needs Java 17 or newer; .*/bin/java is Java 11"):
        Java.find()


@pytest.mark.parametrize(("line", "version"), [('version "17.0.15" 2025', 17), ('version "25" 2025', 25)])
def test_new_java_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, version: int) -> None:
    java = program(tmp_path / "bin" / "java", f"echo '{line}' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert Java.find() == Java(str(java), version)


def test_java_8_is_not_taken_for_java_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin" / "java", "echo 'java version \"1.8.0_292\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(StandError, match="is Java 8"):
        Java.find()


def test_no_java_says_where_it_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StandError, match="no `java` in PATH"):
        Java.find()


def test_no_maven_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StandError, match="no `mvn` in PATH"):
        KafkaJars(tmp_path / "jars").fetch()


def test_a_failing_maven_is_tried_offline_and_online_and_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin" / "mvn", f'echo "$1" >>{tmp_path}/calls; echo "[ERROR] no such host"; exit 1')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    with pytest.raises(StandError, match=r"could not fetch Kafka's jars; .*: \[ERROR\] no such host"):
        KafkaJars(tmp_path / "jars").fetch()
    assert (tmp_path / "calls").read_text().split() == ["-o", "-q"]
    assert not (tmp_path / "jars").exists()


def test_jars_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"echo call >>{tmp_path}/calls; for a; do case $a in -DoutputDirectory=*) d=${{a#*=}}; esac; done"
    program(tmp_path / "bin" / "mvn", f'{script}; mkdir "$d"; : >"$d/kafka_2.13-1.jar"; : >"$d/a.jar"')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    jars = KafkaJars(tmp_path / "jars")
    jars.fetch()
    jars.fetch()
    assert (tmp_path / "calls").read_text().split() == ["call"]
    assert jars.classpath == f"{jars.folder}/a.jar:{jars.folder}/kafka_2.13-1.jar"


def test_only_one_or_three_brokers(tmp_path: Path) -> None:
    with pytest.raises(StandError, match="1 or 3 brokers, not 2"):
        KafkaCluster(tmp_path, brokers=2)


def test_a_broker_that_does_not_run_cannot_be_killed(tmp_path: Path) -> None:
    with pytest.raises(StandError, match="broker 1 does not run"):
        KafkaCluster(tmp_path).kill()
