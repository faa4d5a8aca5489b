"""What the demo plays on: a stand of its own on free ports, three mock providers, and a fleet."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sysconfig
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ringonce.demo.interruption import undisturbed
from ringonce.fleet.tether import tether
from ringonce.mock.thread import MockProvider
from ringonce.stand.choice import choose_local
from ringonce.stand.errors import StandError
from ringonce.stand.local import LocalStand
from ringonce.stand.plan import DATABASE_VARIABLE, KAFKA_VARIABLE, Plan
from ringonce.stand.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ringonce.stand.plan import Kind

SECRET: Final = "demo"  # noqa: S105 - both ends are ours, for a minute
DELAYS: Final = {"retry-30s": 2, "retry-5m": 4}
"""Seconds in place of half a minute and five."""
BREAKER_SECONDS: Final = 0.5
STOP_SECONDS: Final = 45.0
"""More than the fleet gives its members."""


@dataclass(frozen=True)
class Scene:
    """Where everything is."""

    kafka: str
    database: str
    mocks: Mapping[str, MockProvider]
    environment: Mapping[str, str]
    log: Path


@contextmanager
def scene(directory: Path, kind: Kind | None, channels: Sequence[str], say: Callable[[str], None]) -> Iterator[Scene]:
    """Servers and mocks for the length of the block; `directory` is the stand's, where Kafka's jars may be already.

    Raises:
        StandError: a server does not come up, or another demo is on in the same directory.
    """
    if kind is None:
        # No containers: they take longer to come than the whole demo.
        kind, why = choose_local(directory / "jars")
        say(f"{kind} stand ({why})")
    with ExitStack() as stack:
        stack.enter_context(_alone(directory / "demo"))
        kafka_port = free_port()
        plan = Plan(kind, 1, kafka_port, free_port(but=[kafka_port]), {})
        stand = LocalStand(directory / "demo", {}, plan, jars=directory / "jars")
        stack.callback(stand.down, purge=True)
        stack.callback(undisturbed)
        stand.down(purge=True)  # what a demo has left that was killed; interrupted, it is done again on the way out
        stand.up()
        kafka, database = stand.addresses[KAFKA_VARIABLE], stand.addresses[DATABASE_VARIABLE]
        mocks = {name: stack.enter_context(MockProvider(name, secret=SECRET)) for name in channels}
        yield Scene(kafka, database, mocks, _environment(kafka, database, mocks), directory / "demo" / "fleet.log")


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One demo at a time: a second one would take the servers of the first for leftovers."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "demo.lock").open("w")
    except OSError as error:
        raise StandError(f"the demo cannot keep its files in {directory} ({error.strerror})") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StandError(f"another demo is on in {directory}; wait for its end") from None
        yield


def _environment(kafka: str, database: str, mocks: Mapping[str, MockProvider]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RINGONCE_")}
    told = {KAFKA_VARIABLE: kafka, DATABASE_VARIABLE: database, "RINGONCE_LOG_FORMAT": "json"}
    for name, mock in mocks.items():
        prefix = f"RINGONCE_CHANNELS__{name.upper()}__"
        told[f"{prefix}TARGET"] = f"{mock.url}/send"
        told[f"{prefix}SECRET"] = SECRET
        told[f"{prefix}BREAKER_PERIOD"] = str(BREAKER_SECONDS)
    return {**kept, **told}


@contextmanager
def running_fleet(played_on: Scene) -> Iterator[subprocess.Popen[bytes]]:
    """`ringonce fleet` with short delays, for the length of the block."""
    delays = [flag for stage, seconds in DELAYS.items() for flag in ("--delay", f"{stage}={seconds}s")]
    program = Path(sysconfig.get_path("scripts")) / "ringonce"
    with played_on.log.open("wb") as log:
        # A session of its own: Ctrl-C reaches this process, which then stops the fleet in order. The tether is for
        # when it cannot.
        process = subprocess.Popen(  # noqa: S603 - our own program
            [program, "fleet", *delays],
            env=dict(played_on.environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=tether(),  # noqa: PLW1509 - it takes no lock
        )
        try:
            yield process
        finally:
            undisturbed()
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
