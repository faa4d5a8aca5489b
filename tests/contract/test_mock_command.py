"""`ringonce mock` as a process."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from ringonce.errors import ConfigurationError, RingonceError
from ringonce.mock.commands import mock
from ringonce.mock.faults import Faults

if TYPE_CHECKING:
    from collections.abc import Iterator

DEADLINE = 20.0
PROGRAM = "from ringonce.mock.commands import mock; mock()"


@contextmanager
def running(*arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The process and its port, once it listens."""
    command = [sys.executable, "-W", "error", "-c", PROGRAM, "--name", "firebase", "--port", "0", *arguments]
    paths = os.pathsep.join(sys.path)
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": paths} | environment,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("mock provider firebase listening on http://127.0.0.1:")
            yield process, int(line.rpartition(":")[2])
        finally:
            process.kill()


def stats(port: int) -> dict[str, object]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    connection.request("GET", "/stats")
    found: dict[str, object] = json.load(connection.getresponse())
    connection.close()
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_at_once_and_cleanly_even_while_a_client_hangs(number: signal.Signals) -> None:
    with (
        running(HANG="true") as (process, port),
        socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as hanging,
    ):
        hanging.sendall(b"POST /send HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
        assert stats(port)["name"] == "firebase"
        process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE)
        assert (process.returncode, out, err) == (0, "", "")


def test_knobs_and_secret_come_from_the_environment() -> None:
    environment = {"FAIL_RATE_503": "0.25", "LATENCY_MS": "3", "RETRY_AFTER": "", "MOCK_SECRET": "s"}
    with running(**environment) as (_, port):
        assert stats(port)["faults"] == Faults(fail_rate_503=0.25, latency_ms=3, retry_after="").as_knobs()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
        connection.request("POST", "/send", b"{}")
        assert connection.getresponse().status == 401
        connection.close()


def test_a_port_that_is_taken_is_one_line_and_exit_4() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(mock, ["--name", "apns", "--port", str(port)])
    assert isinstance(result.exception, RingonceError)
    assert result.exception.exit_code == 4
    assert str(result.exception) == f"mock provider apns cannot listen on 127.0.0.1:{port}: Address already in use"


def test_every_wrong_knob_of_the_environment_is_named_and_exit_3() -> None:
    result = CliRunner().invoke(mock, ["--name", "apns", "--port", "0"], env={"FAIL_RATE_503": "2", "RESET": "x"})
    assert isinstance(result.exception, ConfigurationError)
    assert result.exception.exit_code == 3
    assert [fault.partition(":")[0] for fault in result.exception.faults] == ["FAIL_RATE_503", "RESET"]
