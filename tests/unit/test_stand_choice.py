"""Which stand is brought up: the best one that the machine can do, unless somebody says or something is up already."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from click.testing import CliRunner

from ringonce.stand.choice import Switch, choose
from ringonce.stand.commands import stand
from ringonce.stand.compose import ComposeStand
from ringonce.stand.daemon import Daemon
from ringonce.stand.errors import StandError
from ringonce.stand.local import LocalStand
from ringonce.stand.plan import Kind, Plan
from ringonce.stand.ports import free_port
from ringonce.stand.state import Entry, State

if TYPE_CHECKING:
    from collections.abc import Mapping

CHECKOUT = Path(__file__).parents[2]
US = Entry(Daemon(os.getpid(), psutil.Process().create_time()), (1,))
CONTAINERS = '{"Service":"kafka-1","State":"running","Health":"healthy"}'


class Machine:
    """A machine that has only the programs given to it: scripts that write down how they are called."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._calls = folder / "calls"

    def has(self, name: str, script: str = "") -> None:
        """Gives it a program of a few lines of shell."""
        path = self._folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>"{self._calls}"\n{script}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def has_java(self, version: int) -> None:
        """A Java that says its version."""
        self.has("java", f"echo 'openjdk version \"{version}.0.1\"' >&2")

    def has_docker(self, script: str = "") -> None:
        """A docker with an engine and the compose plugin; three services run."""
        self.has("docker", script or f"case \"$*\" in *' ps '*) echo '{CONTAINERS}';; esac")

    @property
    def calls(self) -> list[str]:
        """The calls of `docker compose` that change something."""
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        prefix = "docker compose -f docker-compose.yml -f docker-compose.override.yml "
        return [line.removeprefix(prefix) for line in lines if line.startswith(prefix) and " ps " not in line]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("STAND", raising=False)
    monkeypatch.chdir(CHECKOUT)
    return Machine(tmp_path / "bin")


def settled(directory: Path, environment: Mapping[str, str] | None = None, **asked: object) -> str:
    """What `up` would say."""
    return Switch(directory, environment or {}, asked).wanted()[1]


def test_docker_is_best(machine: Machine, tmp_path: Path) -> None:
    machine.has_docker()
    machine.has_java(21)
    machine.has("mvn")
    assert choose(tmp_path) == (Kind.DOCKER, "a docker engine answers")


@pytest.mark.parametrize(
    ("docker", "why"),
    [
        ("exit 1", "no docker engine answers"),
        ('[ "$1" = version ]', "docker has no compose plugin"),
    ],
)
def test_a_docker_that_is_of_no_use_is_not_chosen(machine: Machine, tmp_path: Path, docker: str, why: str) -> None:
    machine.has_docker(docker)
    machine.has_java(17)
    machine.has("mvn")
    assert choose(tmp_path) == (Kind.NATIVE, f"{why}; Java 17 is there")


def test_docker_needs_the_compose_files(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.has_docker()
    monkeypatch.chdir(tmp_path)
    kind, why = choose(tmp_path)
    assert kind is Kind.EMBEDDED
    assert why.startswith("there is no docker-compose.yml in this folder; ")


def test_native_needs_no_maven_once_the_jars_are_there(machine: Machine, tmp_path: Path) -> None:
    machine.has_java(25)
    assert choose(tmp_path) == (
        Kind.EMBEDDED,
        "there is no docker; Kafka's jars are fetched with Maven, and there is no `mvn` in PATH",
    )
    (tmp_path / "jars").mkdir()
    assert choose(tmp_path) == (Kind.NATIVE, "there is no docker; Java 25 is there")


def test_embedded_is_for_machines_with_nothing_or_an_old_java(machine: Machine, tmp_path: Path) -> None:
    kind, why = choose(tmp_path)
    assert (kind, why.partition("; ")[2]) == (
        Kind.EMBEDDED,
        "Kafka needs Java 17 or newer, and there is no `java` in PATH",
    )
    machine.has_java(11)
    machine.has("mvn")
    kind, why = choose(tmp_path)
    assert kind is Kind.EMBEDDED
    assert why.endswith("java is Java 11")


def test_what_is_asked_for_is_not_searched_for(machine: Machine, tmp_path: Path) -> None:
    machine.has_docker()
    assert settled(tmp_path, kind=Kind.EMBEDDED) == "embedded stand (as asked)"
    assert isinstance(Switch(tmp_path, {}, {"kind": Kind.EMBEDDED}).wanted()[0], LocalStand)
    assert isinstance(Switch(tmp_path, {}, {}).wanted()[0], ComposeStand)


def test_an_external_broker_needs_neither_docker_nor_java(machine: Machine, tmp_path: Path) -> None:
    machine.has_docker()
    assert settled(tmp_path, {"KAFKA_BOOTSTRAP": "kafka:9092"}).startswith("native stand (KAFKA_BOOTSTRAP names")


def test_what_was_brought_up_is_brought_up_again_and_nothing_else_beside_it(machine: Machine, tmp_path: Path) -> None:
    machine.has_docker()
    state = State(tmp_path)
    state.remember(Plan(Kind.NATIVE, brokers=3))
    state.record("postgres", US)
    assert settled(tmp_path) == "native stand (as before)"
    assert settled(tmp_path, brokers=3) == "native stand (as before)"
    with pytest.raises(StandError, match=r"another stand is up: native, 3 brokers .*`ringonce stand down` stops it"):
        settled(tmp_path, kind=Kind.EMBEDDED)


def test_a_stand_of_which_nothing_runs_stands_in_nobodys_way(machine: Machine, tmp_path: Path) -> None:
    """After the machine was switched off, say."""
    machine.has_java(11)
    State(tmp_path).remember(Plan(Kind.NATIVE))
    State(tmp_path).record("postgres", Entry(Daemon(os.getpid(), 1.0), (1,)))
    assert settled(tmp_path, kind=Kind.EMBEDDED) == "embedded stand (as asked)"


def test_containers_of_an_engine_that_is_gone_stand_in_nobodys_way(machine: Machine, tmp_path: Path) -> None:
    machine.has_docker()
    State(tmp_path).remember(Plan(Kind.DOCKER, brokers=3))
    with pytest.raises(StandError, match="another stand is up: docker"):
        settled(tmp_path, kind=Kind.EMBEDDED)
    machine.has_docker("exit 1")
    assert settled(tmp_path).startswith("embedded stand (no docker engine answers; ")


def test_compose_brings_up_and_down_what_is_in_its_files(machine: Machine, tmp_path: Path) -> None:
    machine.has_docker()
    run = CliRunner(env={"KAFKA_BOOTSTRAP": "", "DATABASE_URL": ""})
    up = run.invoke(stand, ["--directory", str(tmp_path), "up", "--stand", "docker"], catch_exceptions=False)
    lines = [line.split() for line in up.output.splitlines()]
    assert lines[0] == ["docker", "stand", "(as", "asked)"]
    assert ["kafka-1", "up", "127.0.0.1:19092"] in lines
    assert ["kafka-3", "down", "127.0.0.1:19094"] in lines
    own = "kafka-1 kafka-2 kafka-3 postgres mock-firebase mock-apns mock-webhook"
    assert machine.calls == [f"up -d --wait {own}"]

    down = run.invoke(stand, ["--directory", str(tmp_path), "down"], catch_exceptions=False)
    assert down.output == "stopped: kafka-1\n"
    assert machine.calls[1:] == ["down"]
    assert State(tmp_path).plan() is None


def test_compose_starts_nothing_in_the_place_of_an_external_server(machine: Machine, tmp_path: Path) -> None:
    machine.has_docker()
    plan = Plan(Kind.DOCKER, brokers=3)
    external = {"DATABASE_URL": "postgresql:///elsewhere"}
    services = ComposeStand(tmp_path, external, plan).up()
    assert services[0].condition == "external"
    assert "postgres" not in machine.calls[0]
    port = free_port()
    with pytest.raises(StandError, match=f"KAFKA_BOOTSTRAP points at 127.0.0.1:{port}"):
        ComposeStand(tmp_path, {"KAFKA_BOOTSTRAP": f"127.0.0.1:{port}"}, plan).up()


def test_compose_says_what_it_cannot_do(machine: Machine, tmp_path: Path) -> None:
    plan = Plan(Kind.DOCKER, brokers=3)
    with pytest.raises(StandError, match="cannot be brought up: there is no docker"):
        ComposeStand(tmp_path, {}, plan).up()
    machine.has_docker("case \"$*\" in *' up '*) exit 17;; esac")
    with pytest.raises(StandError, match="`docker compose up` failed with 17"):
        ComposeStand(tmp_path, {}, plan).up()
    with pytest.raises(StandError, match="not docker, 1 broker from port 19092"):
        ComposeStand(tmp_path, {}, Plan(Kind.DOCKER)).up()


def test_the_addresses_of_the_compose_files_are_those_of_the_plan() -> None:
    """The files publish the ports that every stand has by default."""
    text = "".join((CHECKOUT / name).read_text() for name in ("docker-compose.yml", "docker-compose.override.yml"))
    plan = Plan(Kind.DOCKER, brokers=3)
    for port in (*plan.kafka_ports, plan.postgres_port, *plan.mocks.values()):
        assert f'"127.0.0.1:{port}:' in text
