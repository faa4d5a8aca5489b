"""What the stand has started, on disk: `<directory>/state.json`, and the places of logs beside it.

::

    <directory>/
      state.json    {"plan": {"kind": "native", "brokers": 1, "kafka_port": 19092, "postgres_port": 15441},
                     "services": {"kafka-1": {"pid": 4711, "started": 1767225600.0, "ports": [19092, 29093]}}}
      logs/         one file per service
      kafka/        a broker's data and configuration each
      postgres/     the database's files (for root they lie elsewhere, see `postgres_home`)
      jars/         Apache Kafka, fetched once
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringonce.stand.daemon import Daemon
from ringonce.stand.errors import StandError
from ringonce.stand.plan import Kind, Plan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Entry:
    """One service that was started: its process, and the TCP ports given to it (the first is the clients')."""

    daemon: Daemon
    ports: tuple[int, ...]


class State:
    """The entries of one stand directory. Every change is on disk before the call returns.

    Any number of objects may stand for one directory, in any threads and processes: changes are made one at a time.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self._path = self.directory / "state.json"

    def log(self, name: str) -> Path:
        """Where the output of the service `name` goes."""
        return self.directory / "logs" / f"{name}.log"

    def entries(self) -> dict[str, Entry]:
        """What was started and not stopped since, whether it still runs or not.

        Raises:
            StandError: the file is there and is not ours to read.
        """
        return self._read()[1]

    def plan(self) -> Plan | None:
        """What `up` was told to bring up, until `down`.

        Raises:
            StandError: the file is there and is not ours to read.
        """
        return self._read()[0]

    def running(self, name: str) -> Entry | None:
        """The entry of `name` when its process is alive."""
        entry = self.entries().get(name)
        return entry if entry and entry.daemon.alive else None

    def record(self, name: str, entry: Entry) -> None:
        """Writes down a service that is about to run."""
        with self.exclusively("state"):
            plan, entries = self._read()
            self._write(plan, {**entries, name: entry})

    def forget(self, name: str) -> None:
        """Removes a service that was stopped."""
        with self.exclusively("state"):
            plan, entries = self._read()
            self._write(plan, {key: entry for key, entry in entries.items() if key != name})

    def remember(self, plan: Plan | None) -> None:
        """Writes down what is being brought up; None for nothing."""
        with self.exclusively("state"):
            known, entries = self._read()
            if plan != known:
                self._write(plan, entries)

    @contextlib.contextmanager
    def exclusively(self, what: str = "stand") -> Iterator[None]:
        """Keeps other processes that ask for the same `what` waiting until the block ends."""
        with contextlib.ExitStack() as stack:
            try:
                self.directory.mkdir(parents=True, exist_ok=True)
                handle = stack.enter_context((self.directory / f"{what}.lock").open("w"))
            except OSError as error:
                raise StandError(f"{self.directory}: {self._refusal(error)}") from error
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _refusal(self, error: OSError) -> str:
        try:
            owner = self.directory.stat().st_uid
        except OSError:
            owner = os.geteuid()
        if isinstance(error, PermissionError) and owner != os.geteuid():
            return "it belongs to another user; bring the stand up as that one, or elsewhere with --directory"
        return f"the stand cannot keep its files here ({error.strerror})"

    def _read(self) -> tuple[Plan | None, dict[str, Entry]]:
        try:
            content = json.loads(self._path.read_text())
            entries = {
                name: Entry(Daemon(entry["pid"], entry["started"]), tuple(entry["ports"]))
                for name, entry in content["services"].items()
            }
            plan = content.get("plan")
            return Plan(Kind(plan.pop("kind")), **plan) if plan else None, entries
        except FileNotFoundError:
            return None, {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StandError(
                f"{self._path} cannot be read ({error}); remove it once nothing of the stand runs"
            ) from error

    def _write(self, plan: Plan | None, entries: dict[str, Entry]) -> None:
        services = {
            name: {"pid": entry.daemon.pid, "started": entry.daemon.started, "ports": list(entry.ports)}
            for name, entry in entries.items()
        }
        # Without the mocks' ports: nobody can choose them.
        chosen = plan and {
            "kind": plan.kind,
            "brokers": plan.brokers,
            "kafka_port": plan.kafka_port,
            "postgres_port": plan.postgres_port,
        }
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps({"plan": chosen, "services": services}, indent=2) + "\n")
        os.replace(new, self._path)  # noqa: PTH105 - atomic, and said so by name
