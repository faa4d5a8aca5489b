"""What the stand has started, on disk: `<directory>/state.json`, and the places of logs beside it.

::

    <directory>/
      state.json    {"services": {"kafka-1": {"pid": 4711, "started": 1767225600.0, "ports": [19092, 29093]}}}
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
        try:
            services = json.loads(self._path.read_text())["services"]
            return {
                name: Entry(Daemon(entry["pid"], entry["started"]), tuple(entry["ports"]))
                for name, entry in services.items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StandError(
                f"{self._path} cannot be read ({error}); remove it once nothing of the stand runs"
            ) from error

    def running(self, name: str) -> Entry | None:
        """The entry of `name` when its process is alive."""
        entry = self.entries().get(name)
        return entry if entry and entry.daemon.alive else None

    def record(self, name: str, entry: Entry) -> None:
        """Writes down a service that is about to run."""
        with self.exclusively("state"):
            self._write({**self.entries(), name: entry})

    def forget(self, name: str) -> None:
        """Removes a service that was stopped."""
        with self.exclusively("state"):
            self._write({key: entry for key, entry in self.entries().items() if key != name})

    @contextlib.contextmanager
    def exclusively(self, what: str = "stand") -> Iterator[None]:
        """Keeps other processes that ask for the same `what` waiting until the block ends."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / f"{what}.lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _write(self, entries: dict[str, Entry]) -> None:
        services = {
            name: {"pid": entry.daemon.pid, "started": entry.daemon.started, "ports": list(entry.ports)}
            for name, entry in entries.items()
        }
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps({"services": services}, indent=2) + "\n")
        os.replace(new, self._path)  # noqa: PTH105 - atomic, and said so by name
