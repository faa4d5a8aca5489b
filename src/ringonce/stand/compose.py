"""The stand in containers: the compose files of the checkout, on a docker engine."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from ringonce.stand.errors import StandError
from ringonce.stand.external import External
from ringonce.stand.plan import DATABASE_VARIABLE, KAFKA_VARIABLE, Kind, Plan
from ringonce.stand.ports import LOOPBACK
from ringonce.stand.service import Service
from ringonce.stand.state import State

if TYPE_CHECKING:
    from collections.abc import Mapping

_DOCKER = "docker"
_FILES = (Path("docker-compose.yml"), Path("docker-compose.override.yml"))
_IN_FILES = Plan(Kind.DOCKER, brokers=3)
_ANSWER_SECONDS = 10.0


def lacking() -> str:
    """Why no such stand can be brought up here; empty when it can."""
    if not all(file.is_file() for file in _FILES):
        return f"there is no {_FILES[0]} in this folder"
    if shutil.which(_DOCKER) is None:
        return "there is no docker"
    if not _succeeds("version"):
        return "no docker engine answers"
    if not _succeeds("compose", "version"):
        return "docker has no compose plugin"
    return ""


class ComposeStand:
    """The docker stand; see `Stand` for what it does. `directory` keeps the record of the choice."""

    def __init__(self, directory: Path, environment: Mapping[str, str], plan: Plan) -> None:
        self._plan = plan
        self._state = State(directory)
        self._external = External.named(environment, plan)

    @property
    def addresses(self) -> dict[str, str]:
        """See `Stand`."""
        return {
            KAFKA_VARIABLE: self._external.kafka or self._plan.bootstrap,
            DATABASE_VARIABLE: self._external.database or self._plan.database,
        }

    def up(self) -> list[Service]:
        """See `Stand`; what docker has to say goes to the terminal."""
        if self._plan != _IN_FILES:
            raise StandError(f"this is what the compose files have: {_IN_FILES}; not {self._plan}")
        lacks = lacking()
        if lacks:
            raise StandError(f"the docker stand cannot be brought up: {lacks}")
        if self._external.kafka:
            self._external.require_kafka()
        if self._external.database:
            self._external.require_database()
        with self._state.exclusively():
            self._state.remember(self._plan)
            _compose("up", "-d", "--wait", *self._own())
        return self.services()

    def down(self, *, purge: bool = False) -> list[str]:
        """See `Stand`."""
        with self._state.exclusively():
            running = list(_containers())
            _compose("down", *(["--volumes"] if purge else []))
            self._state.remember(None)
        return running

    def services(self) -> list[Service]:
        """See `Stand`."""
        containers, own = _containers(), self._own()
        external = [
            *([self._external.kafka_service] if self._external.kafka else []),
            *([self._external.database_service] if self._external.database else []),
        ]
        return external + [Service(name, containers.get(name, "down"), address) for name, address in own.items()]

    def show_logs(self, service: str | None, lines: int, *, follow: bool) -> list[str]:
        """See `Stand`."""
        options = ["--tail", str(lines), *(["--follow"] if follow else [])]
        return _command("logs", *options, *([service] if service else []))

    def _own(self) -> dict[str, str]:
        """The services of the compose files that are wanted, with their addresses on this machine."""
        kafka = {f"kafka-{number}": f"{LOOPBACK}:{port}" for number, port in enumerate(self._plan.kafka_ports, start=1)}
        return {
            **({} if self._external.kafka else kafka),
            **({} if self._external.database else {"postgres": self._plan.database}),
            **{f"mock-{channel}": f"http://{LOOPBACK}:{port}" for channel, port in self._plan.mocks.items()},
        }


def _command(*arguments: str) -> list[str]:
    return [_DOCKER, "compose", *(part for file in _FILES for part in ("-f", str(file))), *arguments]


def _compose(*arguments: str) -> None:
    """Runs `docker compose`; what it says goes to the terminal."""
    if shutil.which(_DOCKER) is None:
        raise StandError("there is no docker")
    code = subprocess.run(_command(*arguments), check=False).returncode
    if code:
        raise StandError(f"`docker compose {arguments[0]}` failed with {code}; it said why above")


def _containers() -> dict[str, str]:
    """The condition of each service that has a container."""
    try:
        run = subprocess.run(_command("ps", "--format", "json"), capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = error.stderr.strip()[-500:] if isinstance(error, subprocess.CalledProcessError) else error
        raise StandError(f"docker does not say what runs: {reason}") from error
    # Older releases write one list, newer ones an object a line.
    lines = json.loads(run.stdout) if run.stdout.startswith("[") else map(json.loads, run.stdout.splitlines())
    return {each["Service"]: _condition(each["State"], each["Health"]) for each in lines}


def _condition(state: str, health: str) -> str:
    return "up" if state == "running" and health in {"", "healthy"} else "not answering"


def _succeeds(*arguments: str) -> bool:
    try:
        run = subprocess.run([_DOCKER, *arguments], capture_output=True, check=False, timeout=_ANSWER_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return run.returncode == 0
