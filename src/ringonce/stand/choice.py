"""Which stand to bring up, and which one is up."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from ringonce.stand import compose
from ringonce.stand.compose import ComposeStand
from ringonce.stand.errors import StandError
from ringonce.stand.external import External
from ringonce.stand.java import Java
from ringonce.stand.kafka_jars import KafkaJars
from ringonce.stand.local import LocalStand
from ringonce.stand.plan import KAFKA_VARIABLE, Kind, Plan
from ringonce.stand.state import State

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ringonce.stand.service import Stand


class Switch:
    """Selects the stand of `directory`: the one that is up, or the one to bring up.

    Args:
        directory: the stand's.
        environment: where KAFKA_BOOTSTRAP and DATABASE_URL may be.
        asked: the fields of the plan that a person has chosen; the others are open.
    """

    def __init__(self, directory: Path, environment: Mapping[str, str], asked: Mapping[str, Any]) -> None:
        self._directory = directory
        self._environment = environment
        self._asked = asked
        self._state = State(directory)

    def present(self) -> Stand:
        """The stand as it was brought up; before that, the native one with what was asked for."""
        return self._open(self._state.plan() or replace(Plan(), **self._asked))

    def wanted(self) -> tuple[Stand, str]:
        """The stand to bring up, and a line that says which and why.

        As it was before, else as asked, else the best that this machine can do.

        Raises:
            StandError: something else is up.
        """
        plan, why = self._settle()
        return self._open(plan), f"{plan.kind} stand ({why})"

    def _open(self, plan: Plan) -> Stand:
        kind = ComposeStand if plan.kind is Kind.DOCKER else LocalStand
        return kind(self._directory, self._environment, plan)

    def _settle(self) -> tuple[Plan, str]:
        known = self._state.plan()
        if known and known.kind is Kind.DOCKER and compose.lacking():
            known = None  # whatever became of its containers, they are out of reach
        if known and all(asdict(known)[name] == value for name, value in self._asked.items()):
            return known, "as before"
        if known and _in_use(self._state, known):
            raise StandError(f"another stand is up: {known}; `ringonce stand down` stops it")
        plan, why = replace(Plan(), **self._asked), "as asked"
        if "kind" not in self._asked:
            kind, why = self._best(plan)
            plan = replace(plan, kind=kind)
        if plan.kind is Kind.DOCKER and "brokers" not in self._asked:
            plan = replace(plan, brokers=3)
        return plan, why

    def _best(self, plan: Plan) -> tuple[Kind, str]:
        if External.named(self._environment, plan).kafka:
            return Kind.NATIVE, f"{KAFKA_VARIABLE} names the broker, so that none is needed"
        return choose(self._directory)


def choose(directory: Path) -> tuple[Kind, str]:
    """The best stand that this machine can bring up, and why no better one."""
    no_docker = compose.lacking()
    if not no_docker:
        return Kind.DOCKER, "a docker engine answers"
    kind, why = choose_local(directory / "jars")
    return kind, f"{no_docker}; {why}"


def choose_local(jars: Path) -> tuple[Kind, str]:
    """The same without containers; `jars` is where Kafka's jars are or will be."""
    try:
        java = Java.find()
    except StandError as error:
        return Kind.EMBEDDED, str(error)
    lacking = KafkaJars(jars).lacking
    return (Kind.EMBEDDED, lacking) if lacking else (Kind.NATIVE, f"Java {java.version} is there")


def _in_use(state: State, plan: Plan) -> bool:
    return plan.kind is Kind.DOCKER or any(entry.daemon.alive for entry in state.entries().values())
