"""The embedded stand against itself: a broker in memory that other processes use; neither Java nor containers."""

from __future__ import annotations

import json
import socket
import urllib.request
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.fixtures.program import Program
from tests.fixtures.waiting import eventually

from ringonce.channels.registry import CHANNELS
from ringonce.kafka.topics import EMBEDDED, Severity, TopicAdmin, TopicNames, TopicsStay, specs
from ringonce.stand import embedded
from ringonce.stand.kafka_probe import known_brokers
from ringonce.stand.local import LocalStand
from ringonce.stand.plan import Kind, Plan
from ringonce.stand.ports import LOOPBACK, free_port, is_free
from ringonce.stand.postgres_home import location
from ringonce.stand.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WANTED = specs(TopicNames(), {"webhook": CHANNELS["webhook"].ladder})


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    """The address of an embedded broker in a process of its own."""
    state, program = State(tmp_path), embedded.broker(free_port())
    try:
        program.start(state)
        yield f"{LOOPBACK}:{program.port}"
    finally:
        program.stop(state)
    assert is_free(program.port)


def test_topics_are_made_once_by_asking_for_them(broker: str) -> None:
    """The broker has no CreateTopics: `topics create` does what makes it create them."""
    admin = TopicAdmin(broker)
    assert {finding.severity for finding in admin.check(WANTED)} == {Severity.REFUSED}
    assert sorted(admin.create(WANTED)) == sorted(spec.name for spec in WANTED)
    assert admin.create(WANTED) == []


def test_a_start_on_it_warns_in_one_line_and_refuses_nothing(broker: str) -> None:
    """It is not asked for settings that it does not have: it would hang up, and the start would take ten seconds."""
    admin = TopicAdmin(broker)
    admin.create(WANTED)
    assert {(finding.severity, finding.text) for finding in admin.check(WANTED)} == {(Severity.WARNING, EMBEDDED)}


def test_it_says_that_topics_stay(broker: str) -> None:
    with pytest.raises(TopicsStay, match="cannot delete topics"):
        TopicAdmin(broker).delete([WANTED[0].name])


def test_each_connection_is_passed_on_by_itself(broker: str) -> None:
    """One that breaks off, says nothing or says nonsense does not keep others from the broker."""
    port = int(broker.rpartition(":")[2])
    socket.create_connection((LOOPBACK, port)).close()
    with socket.create_connection((LOOPBACK, port)), socket.create_connection((LOOPBACK, port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert known_brokers(LOOPBACK, port) == {1}


class Fleet:
    """The product's programs at a stand."""

    def __init__(self, stand: LocalStand, mock_port: int, logs: Path) -> None:
        self._environment = {
            **stand.addresses,
            "RINGONCE_CHANNELS__FIREBASE__TARGET": f"http://{LOOPBACK}:{mock_port}/send",
            "RINGONCE_CHANNELS__FIREBASE__SECRET": "a secret of the tests",
        }
        self._mock = f"http://{LOOPBACK}:{mock_port}/chaos"
        self._logs = logs
        self._database = stand.addresses["DATABASE_URL"]
        self._roles: list[Program] = []

    def run(self, *command: str) -> str:
        """Runs a command to its end; what it has written."""
        program = self._program(command)
        assert program.wait() == 0, program.text()
        return program.text()

    def start(self, *command: str) -> None:
        """Starts a role."""
        self._roles.append(self._program(command))

    def stop(self) -> list[int]:
        """Stops the roles in order; their exit codes."""
        return [role.stop() for role in self._roles]

    def end(self) -> None:
        """Kills what still runs."""
        for role in self._roles:
            if role.running:
                role.kill()

    def chaos(self, **knobs: object) -> None:
        """Turns the mock's knobs."""
        request = urllib.request.Request(self._mock, json.dumps(knobs).encode(), method="POST")  # noqa: S310 - loopback
        with urllib.request.urlopen(request, timeout=10):  # noqa: S310 - the same
            pass

    def statuses(self) -> list[str]:
        """The status of every row of the history."""
        with psycopg.connect(self._database) as connection:
            rows = connection.execute("SELECT status FROM notifications_log ORDER BY status").fetchall()
        return [status for (status,) in rows]

    def _program(self, command: tuple[str, ...]) -> Program:
        return Program(list(command), self._environment, self._logs / f"{'-'.join(command)}.log")


@pytest.mark.database
async def test_a_first_look_from_up_to_down(tmp_path: Path) -> None:
    """Delivered, rejected, recorded and replayed on it; `down` leaves no process, no port and no file behind."""
    mock_port = free_port()
    plan = Plan(Kind.EMBEDDED, kafka_port=free_port(), postgres_port=free_port(), mocks={"firebase": mock_port})
    stand = LocalStand(tmp_path / "a stand", {}, plan)
    fleet = Fleet(stand, mock_port, tmp_path)
    try:
        services = {service.name: service.condition for service in stand.up()}
        assert services == {"kafka": "up", "postgres": "up", "mock-firebase": "up"}
        fleet.run("ringonce", "db", "init")
        assert "created notification-events\n" in fleet.run("ringonce", "topics", "create")
        for role in (
            ("router",),
            ("sender", "--channel", "firebase"),
            ("sender", "--channel", "firebase", "--mode", "dlq"),
        ):
            fleet.start(*role)

        fleet.run("ringonce", "seed", "--count", "1", "--channel", "firebase")
        await eventually(lambda: fleet.statuses() == ["delivered"], so_far=fleet.statuses)
        fleet.chaos(STATUS=400)
        fleet.run("ringonce", "seed", "--count", "1", "--channel", "firebase")
        await eventually(lambda: fleet.statuses() == ["delivered", "dlq"], so_far=fleet.statuses)
        fleet.chaos(reset=True)
        assert "replayed 1, skipped 0" in fleet.run("ringonce", "replay", "--channel", "firebase")
        await eventually(lambda: fleet.statuses() == ["delivered", "delivered", "dlq"], so_far=fleet.statuses)
        assert fleet.stop() == [0, 0, 0]
    finally:
        fleet.end()
        started = State(tmp_path / "a stand").entries()
        stopped = stand.down(purge=True)
    assert sorted(stopped) == ["kafka", "mock-firebase", "postgres"]
    assert [name for name, entry in started.items() if entry.daemon.alive] == []
    assert all(is_free(port) for port in (plan.kafka_port, plan.postgres_port, mock_port))
    assert not location(tmp_path / "a stand").exists()
