"""A service of the stand that is a program of ours: known by its arguments, healthy when it answers."""

from __future__ import annotations

import http.client
import os
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ringonce.stand.daemon import Daemon
from ringonce.stand.errors import StandError
from ringonce.stand.ports import LOOPBACK, require_free
from ringonce.stand.state import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ringonce.stand.state import State

_START_SECONDS = 20.0
_STOP_SECONDS = 5.0
_ANSWER_SECONDS = 2.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Program:
    """What to run as the service `name`: `argv` with `env` on top of ours, listening on the loopback `port`.

    It is healthy when `answering` says so; without it, when a GET of /health is answered with 200. Where a person may
    choose the port, `port_option` does it.
    """

    name: str
    argv: tuple[str, ...]
    port: int
    env: Mapping[str, str] = field(default_factory=dict)
    answering: Callable[[], bool] | None = None
    port_option: str = ""

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{LOOPBACK}:{self.port}"

    def healthy(self) -> bool:
        """Whether it answers."""
        if self.answering:
            return self.answering()
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=_ANSWER_SECONDS)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def start(self, state: State) -> None:
        """Starts it unless it runs; returns when it is healthy.

        Raises:
            StandError: its port is taken, it ended, or it was not healthy in time.
        """
        entry = state.running(self.name)
        if entry and entry.ports != (self.port,):
            raise StandError(f"{self.name} already runs on port {entry.ports[0]}, not on {self.port}; stop it first")
        if entry is None:
            require_free(self.port, self.name, self.port_option)
            Daemon.launch(
                self.argv,
                log=state.log(self.name),
                record=lambda daemon: state.record(self.name, Entry(daemon, (self.port,))),
                env={**os.environ, **self.env},
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self.healthy():
            if state.running(self.name) is None:
                state.forget(self.name)
                raise StandError.with_log(f"{self.name} ended while it was starting", state.log(self.name))
            if time.monotonic() > deadline:
                what = f"{self.name} was not healthy within {_START_SECONDS:g} s"
                raise StandError.with_log(what, state.log(self.name))
            time.sleep(_POLL_SECONDS)

    def stop(self, state: State) -> None:
        """Stops it, after five seconds by force."""
        entry = state.entries().get(self.name)
        if entry:
            entry.daemon.stop(_STOP_SECONDS)
            state.forget(self.name)


def mock_provider(channel: str, port: int) -> Program:
    """The mock provider of a channel."""
    argv = (sys.executable, "-m", "ringonce.cli", "mock", "--name", channel, "--port", str(port))
    return Program(f"mock-{channel}", argv, port)
