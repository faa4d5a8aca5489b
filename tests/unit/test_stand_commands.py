"""The command group `stand` and the native stand, where no server has to be started for it."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from ringonce.stand.commands import stand
from ringonce.stand.errors import StandError
from ringonce.stand.native import NativeStand
from ringonce.stand.plan import Plan
from ringonce.stand.ports import LOOPBACK, free_port
from ringonce.stand.program import Program
from ringonce.stand.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOTHING = Plan(mocks={})


@pytest.fixture
def listener() -> Iterator[str]:
    """The address of somebody who accepts connections."""
    with socket.create_server((LOOPBACK, 0)) as server:
        yield f"{LOOPBACK}:{server.getsockname()[1]}"


def server_program(port: int, body: str = "") -> Program:
    """A health endpoint from the standard library; `body` runs first."""
    script = (
        "import http.server as h, sys\n"
        f"{body}\n"
        "class H(h.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200 if self.path == '/health' else 404)\n"
        "        self.end_headers()\n"
        f"h.HTTPServer(('{LOOPBACK}', {port}), H).serve_forever()\n"
    )
    return Program("mock-test", (sys.executable, "-c", script), port)


def test_external_servers_are_used_and_nothing_is_started(tmp_path: Path, listener: str) -> None:
    environment = {"KAFKA_BOOTSTRAP": listener, "DATABASE_URL": f"postgresql://me:secret@{listener}/db"}
    native = NativeStand(tmp_path, environment, NOTHING)
    services = native.up()
    assert [(each.name, each.condition) for each in services] == [("kafka", "external"), ("postgres", "external")]
    assert services[1].address == f"postgresql://me:***@{listener}/db"
    assert native.addresses == environment
    assert State(tmp_path).entries() == {}


def test_external_servers_that_do_not_answer_are_all_named_without_passwords(tmp_path: Path) -> None:
    port = free_port()
    environment = {
        "KAFKA_BOOTSTRAP": f"{LOOPBACK}:{port}",
        "DATABASE_URL": f"postgresql://me:secret@{LOOPBACK}:{port}/db",
    }
    with pytest.raises(StandError) as caught:
        NativeStand(tmp_path, environment, NOTHING).up()
    assert f"KAFKA_BOOTSTRAP points at {LOOPBACK}:{port}" in str(caught.value)
    assert f"DATABASE_URL points at postgresql://me:***@{LOOPBACK}:{port}/db" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.exit_code == 4


def test_its_own_addresses_in_the_environment_do_not_make_it_external(tmp_path: Path) -> None:
    addresses = NativeStand(tmp_path, {}, NOTHING).addresses
    assert {each.condition for each in NativeStand(tmp_path, addresses, NOTHING).services()} == {"down"}


def test_a_program_is_started_once_and_stopped(tmp_path: Path) -> None:
    state, program = State(tmp_path), server_program(free_port())
    try:
        program.start(state)
        entry = state.running(program.name)
        assert entry is not None
        program.start(state)
        assert state.running(program.name) == entry
    finally:
        program.stop(state)
    assert not program.healthy()
    assert state.entries() == {}


def test_a_program_that_ends_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    program = server_program(free_port(), "sys.exit('no such knob')")
    with pytest.raises(StandError, match=r"(?s)mock-test ended while it was starting.*no such knob"):
        program.start(State(tmp_path))
    assert State(tmp_path).entries() == {}


def test_a_taken_port_is_said(tmp_path: Path, listener: str) -> None:
    program = server_program(int(listener.rpartition(":")[2]))
    with pytest.raises(StandError, match=r"mock-test: port \d+ is taken"):
        program.start(State(tmp_path))


def test_down_without_a_stand_does_nothing(tmp_path: Path) -> None:
    result = CliRunner().invoke(stand, ["--directory", str(tmp_path / "none"), "down"])
    assert result.output == "nothing was running\n"
    assert not (tmp_path / "none").exists()


def test_ps_shows_what_is_down(tmp_path: Path) -> None:
    ports = [str(free_port()), str(free_port())]
    options = ["--directory", str(tmp_path), "--kafka-port", ports[0], "--postgres-port", ports[1]]
    environment = {"KAFKA_BOOTSTRAP": "", "DATABASE_URL": ""}
    result = CliRunner(env=environment).invoke(stand, [*options, "ps"], catch_exceptions=False)
    lines = [line.split() for line in result.output.splitlines()]
    assert ["kafka-1", "down", f"127.0.0.1:{ports[0]}"] in lines
    assert ["postgres", "down", f"postgresql://ringonce@127.0.0.1:{ports[1]}/ringonce"] in lines


def test_env_is_for_a_shell(tmp_path: Path) -> None:
    environment = {"KAFKA_BOOTSTRAP": "", "DATABASE_URL": ""}
    options = ["--directory", str(tmp_path), "--brokers", "3", "--kafka-port", "19092"]
    result = CliRunner(env=environment).invoke(stand, [*options, "env"], catch_exceptions=False)
    assert "export KAFKA_BOOTSTRAP=127.0.0.1:19092,127.0.0.1:19093,127.0.0.1:19094\n" in result.output


def test_logs_of_an_unknown_service_name_the_known_ones(tmp_path: Path) -> None:
    State(tmp_path).log("postgres").parent.mkdir()
    State(tmp_path).log("postgres").write_text("ready\n")
    with pytest.raises(StandError, match="no log of 'kafka'; there are: postgres"):
        NativeStand(tmp_path, {}, NOTHING).log("kafka")
