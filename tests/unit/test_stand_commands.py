"""The command group `stand` and the local stands, where no server has to be started for it."""

from __future__ import annotations

import shutil
import socket
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from ringonce.stand.commands import stand
from ringonce.stand.errors import StandError
from ringonce.stand.local import LocalStand
from ringonce.stand.plan import Kind, Plan
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
    local = LocalStand(tmp_path, environment, NOTHING)
    services = local.up()
    assert [(each.name, each.condition) for each in services] == [("kafka", "external"), ("postgres", "external")]
    assert services[1].address == f"postgresql://me:***@{listener}/db"
    assert local.addresses == environment
    assert State(tmp_path).entries() == {}


def test_external_servers_that_do_not_answer_are_all_named_without_passwords(tmp_path: Path) -> None:
    port = free_port()
    environment = {
        "KAFKA_BOOTSTRAP": f"{LOOPBACK}:{port}",
        "DATABASE_URL": f"postgresql://me:secret@{LOOPBACK}:{port}/db",
    }
    with pytest.raises(StandError) as caught:
        LocalStand(tmp_path, environment, NOTHING).up()
    assert f"KAFKA_BOOTSTRAP points at {LOOPBACK}:{port}" in str(caught.value)
    assert f"DATABASE_URL points at postgresql://me:***@{LOOPBACK}:{port}/db" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.exit_code == 4


def test_its_own_addresses_in_the_environment_do_not_make_it_external(tmp_path: Path) -> None:
    addresses = LocalStand(tmp_path, {}, NOTHING).addresses
    assert {each.condition for each in LocalStand(tmp_path, addresses, NOTHING).services()} == {"down"}


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


def test_env_knows_what_was_brought_up(tmp_path: Path) -> None:
    """Nobody has to repeat the number of brokers or the ports."""
    State(tmp_path).remember(Plan(Kind.NATIVE, brokers=3, kafka_port=20_000))
    environment = {"KAFKA_BOOTSTRAP": "", "DATABASE_URL": ""}
    result = CliRunner(env=environment).invoke(stand, ["--directory", str(tmp_path), "env"], catch_exceptions=False)
    assert "export KAFKA_BOOTSTRAP=127.0.0.1:20000,127.0.0.1:20001,127.0.0.1:20002\n" in result.output


def test_one_broker_of_the_stands_own_is_not_external(tmp_path: Path) -> None:
    plan = Plan(brokers=3, mocks={})
    environment = {"KAFKA_BOOTSTRAP": f"{LOOPBACK}:{plan.kafka_port}"}
    assert LocalStand(tmp_path, environment, plan).addresses["KAFKA_BOOTSTRAP"] == plan.bootstrap


def test_native_without_java_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StandError, match="no `java` in PATH"):
        LocalStand(tmp_path, {}, Plan(postgres_port=free_port())).up()
    assert State(tmp_path).entries() == {}
    assert State(tmp_path).plan() is None


def test_the_embedded_stand_has_one_broker(tmp_path: Path) -> None:
    with pytest.raises(StandError, match="one broker, not 3; native and docker have three"):
        LocalStand(tmp_path, {}, Plan(Kind.EMBEDDED, brokers=3)).up()


def test_a_stand_of_which_nothing_came_up_is_not_remembered(tmp_path: Path, listener: str) -> None:
    port = int(listener.rpartition(":")[2])
    external = {"DATABASE_URL": f"postgresql://{listener}/db"}
    with pytest.raises(StandError, match=f"kafka: port {port} is taken .* --kafka-port PORT"):
        LocalStand(tmp_path, external, Plan(Kind.EMBEDDED, kafka_port=port, mocks={})).up()
    assert State(tmp_path).plan() is None


def test_a_full_disk_is_said_before_anything_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=3 * 1024**2)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(StandError, match="has 3 MB free; the stand needs 500 MB"):
        LocalStand(tmp_path, {}, Plan(Kind.EMBEDDED)).up()
    assert State(tmp_path).entries() == {}


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StandError, match=r"file/stand: the stand cannot keep its files here \(Not a directory\)"):
        LocalStand(tmp_path / "file" / "stand", {}, Plan(Kind.EMBEDDED)).up()


def test_logs_of_all_services_are_shown_together(tmp_path: Path) -> None:
    State(tmp_path).log("kafka").parent.mkdir()
    for name in ("postgres", "kafka"):
        State(tmp_path).log(name).write_text("ready\n")
    paths = [str(State(tmp_path).log(name)) for name in ("kafka", "postgres")]
    local = LocalStand(tmp_path, {}, NOTHING)
    assert local.show_logs(None, 5, follow=True) == ["tail", "-n", "5", "-F", *paths]
    assert local.show_logs("postgres", 5, follow=False) == ["tail", "-n", "5", paths[1]]
    assert LocalStand(tmp_path / "none", {}, NOTHING).show_logs(None, 5, follow=False) == []


def test_logs_of_an_unknown_service_name_the_known_ones(tmp_path: Path) -> None:
    State(tmp_path).log("postgres").parent.mkdir()
    State(tmp_path).log("postgres").write_text("ready\n")
    with pytest.raises(StandError, match="no log of 'kafka'; there are: postgres"):
        LocalStand(tmp_path, {}, NOTHING).show_logs("kafka", 1, follow=False)
