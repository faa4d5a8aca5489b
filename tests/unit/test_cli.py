"""The commands' messages and exit codes."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click
import pytest

from ringonce import bootstrap, cli, configured
from ringonce.errors import ConfigurationError, RingonceError, ServerUnreachable, WorkLeftBehind
from ringonce.observe import logs
from ringonce.settings import ChannelSettings, Loader
from ringonce.tools import roles
from ringonce.tools.duration import Duration
from ringonce.tools.roles import router_command, sender_command

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = "import sys; from ringonce import cli; sys.argv[1:] = {arguments!r}; cli.{entry}()"
NOBODY = "postgresql://user:CANARY@127.0.0.1:1/ringonce"


def run(entry: str, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own."""
    code = PROGRAM.format(arguments=list(arguments), entry=entry)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, env=env or {}
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2s", 2),
        ("5m", 300),
        ("250ms", 0.25),
        ("1h", 3600),
        ("1.5s", 1.5),
        ("7", 7),
        (" 2 s", 2),
        ("0.5", 0.5),
        (3.0, 3),
    ],
)
def test_durations(text: Any, seconds: float) -> None:
    """With a unit, or in seconds."""
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "ms", "soon", "5d", "1m30s", "-1s", "0", "0s", "nan", "inf", "1e400", "1,5s"]
)
def test_what_is_no_duration(text: str) -> None:
    """Neither is anything that is not positive."""
    with pytest.raises(click.BadParameter):
        Duration().convert(text, None, None)


@pytest.mark.parametrize(
    ("entry", "arguments", "faults"),
    [
        ("router", [], ["KAFKA_BOOTSTRAP is not set"]),
        ("router", ["--mode", "dlq"], ["KAFKA_BOOTSTRAP is not set", "DATABASE_URL is not set"]),
        (
            "sender",
            ["--channel", "firebase", "--max-attempts", "0"],
            [
                "KAFKA_BOOTSTRAP is not set",
                "DATABASE_URL is not set",
                "RINGONCE_CHANNELS__FIREBASE__TARGET is not set",
                "RINGONCE_CHANNELS__FIREBASE__SECRET is not set",
                "RINGONCE_CHANNELS__FIREBASE__MAX_ATTEMPTS: ",
            ],
        ),
        (
            "sender",
            ["--channel", "pigeon"],
            ["there is no channel 'pigeon'; there are apns, email, firebase, ntfy, webhook"],
        ),
    ],
)
def test_missing_settings_are_one_message_and_exit_3(entry: str, arguments: list[str], faults: list[str]) -> None:
    """All of them, without a traceback."""
    done = run(entry, *arguments)
    assert done.returncode == 3
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0] == f"{entry}: configuration:"
    assert len(lines) == len(faults) + 1
    assert all(any(line.startswith(f"  - {fault}") for line in lines) for fault in faults)


def test_a_database_that_is_not_there_is_exit_4() -> None:
    """Said plainly, with the address and without the password."""
    done = run("main", "history", env={"DATABASE_URL": NOBODY})
    assert done.returncode == 4
    assert done.stderr.startswith("ringonce: PostgreSQL at postgresql://127.0.0.1:1/ringonce is not reachable: ")
    assert done.stderr.endswith("; start it, or correct DATABASE_URL\n")
    assert len(done.stderr.splitlines()) == 1
    assert "CANARY" not in done.stderr + done.stdout


@pytest.mark.parametrize(
    "url", ["postgres//user:CANARY@db/x", "host=db password=CANARY port", "postgresql://u:CANARY@[::1/x"]
)
def test_a_database_url_that_is_none_does_not_show_its_password(url: str) -> None:
    """Whatever the library quotes of it."""
    done = run("main", "history", env={"DATABASE_URL": url})
    assert done.returncode in {3, 4}
    assert len(done.stderr.splitlines()) <= 2
    assert "CANARY" not in done.stderr + done.stdout


class Started:
    """What a role was started with, in place of the role."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.environment = monkeypatch
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        for name in ("run_router", "run_sender", "run_dlq_recorder", "run_dry"):
            monkeypatch.setattr(bootstrap, name, self._noting(name))
        monkeypatch.setattr(roles, "run_async", lambda role: role(None))
        monkeypatch.setattr(roles, "run_sync", lambda role: role(None))
        monkeypatch.setattr(logs, "configure", lambda *_, **__: None)
        for name, value in {
            "KAFKA_BOOTSTRAP": "b:1",
            "DATABASE_URL": "postgresql://db/x",
            "RINGONCE_CHANNELS__FIREBASE__TARGET": "http://from.env/",
            "RINGONCE_CHANNELS__FIREBASE__SECRET": "s",
        }.items():
            monkeypatch.setenv(name, value)

    def _noting(self, name: str) -> Callable[..., None]:
        def note(*positional: Any, **named: Any) -> None:
            self.calls.append((name, positional, named))

        return note

    def sender(self, *arguments: str) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """What `sender` starts."""
        sender_command.main(list(arguments), standalone_mode=False)
        return self.calls.pop()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    return Started(monkeypatch)


def test_sender_flags_reach_the_role(started: Started) -> None:
    """All of them, over what the environment says."""
    name, (settings, channel, row, _), named = started.sender(
        *("--channel", "firebase", "--target", "http://flag/", "--node-id", "n", "--max-in-flight", "8"),
        *("--max-attempts", "2", "--body", "protobuf", "--http-client", "httpx", "--from-latest"),
        *("--allow-host", "a:1", "--allow-host", "b:2", "--log-level", "DEBUG", "--kafka-bootstrap", "k:1"),
        *("--delay-30s", "2s", "--delay", "retry-5m=2500ms"),
    )
    assert (name, row.name, named) == ("run_sender", "firebase", {"from_latest": True})
    assert (settings.node_id, settings.log_level, settings.kafka_bootstrap) == ("n", "DEBUG", "k:1")
    assert (channel.target, channel.max_in_flight, channel.max_attempts) == ("http://flag/", 8, 2)
    assert (channel.body, channel.http_client, channel.allow_hosts) == ("protobuf", "httpx", ("a:1", "b:2"))
    assert channel.delays == {"retry-30s": 2.0, "retry-5m": 2.5}


def test_sender_without_flags(started: Started) -> None:
    """From the start, with what the environment says."""
    name, (_, channel, _, _), named = started.sender("--channel", "firebase")
    assert (name, named) == ("run_sender", {"from_latest": False})
    assert (channel.target, channel.delays) == ("http://from.env/", {})


def test_modes(started: Started) -> None:
    """Record, or only show."""
    assert started.sender("--channel", "apns", "--mode", "dlq")[0] == "run_dlq_recorder"
    assert started.sender("--channel", "firebase", "--dry-run")[0] == "run_dry"
    router_command.main(["--mode", "dlq"], standalone_mode=False)
    name, (_, row, _), _ = started.calls.pop()
    assert (name, row) == ("run_dlq_recorder", None)
    router_command.main(["--channels", "firebase,apns"], standalone_mode=False)
    name, (settings, _), _ = started.calls.pop()
    assert (name, settings.channel_names) == ("run_router", ("firebase", "apns"))


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize("delay", ["retry-30s", "retry-30s=", "retry-30s=soon", "retry-30s=-1s", "=2s"])
def test_bad_delays_are_faults_of_the_configuration(delay: str) -> None:
    """Told with all the others."""
    with pytest.raises(ConfigurationError) as caught:
        sender_command.main(["--channel", "firebase", "--delay", delay, "--max-attempts", "0"], standalone_mode=False)
    assert any(fault.startswith("--delay") for fault in caught.value.faults)
    assert any("MAX_ATTEMPTS" in fault for fault in caught.value.faults)


def test_a_bad_target_and_a_stage_that_is_not_there_are_told_together(started: Started) -> None:
    """With a server that was not named."""
    started.environment.delenv("DATABASE_URL")
    with pytest.raises(ConfigurationError) as caught:
        started.sender("--channel", "firebase", "--delay", "retry-1h=2s", "--target", "provider")
    assert caught.value.faults == [
        "DATABASE_URL is not set",
        "firebase has no retry stage retry-1h",
        "RINGONCE_CHANNELS__FIREBASE__TARGET or ALLOW_HOSTS: the target is not an absolute http or https URL",
    ]


def test_delays_of_stages() -> None:
    """A stage that is not there and delays that do not rise are refused."""
    row = configured.channel_row("firebase")
    loaded = Loader().load(ChannelSettings, {"target": "t", "secret": "s", "delays": {"x": 1}})
    assert loaded is not None
    with pytest.raises(ConfigurationError, match="firebase has no retry stage x"):
        configured.with_settings(row, loaded)
    loaded = loaded.model_copy(update={"delays": {"retry-30s": 900.0}})
    with pytest.raises(ConfigurationError, match="rise"):
        configured.with_settings(row, loaded)


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigurationError(["x"]), 3), (ServerUnreachable("s", "a", "r"), 4), (WorkLeftBehind(2), 5)],
)
def test_each_error_has_its_exit_code_and_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: RingonceError, code: int
) -> None:
    """On standard error, after the program's name."""

    @click.command()
    def fail() -> None:
        raise error

    monkeypatch.setattr(sys, "argv", ["fail"])
    with pytest.raises(SystemExit) as caught:
        cli._run(fail, "fail")
    assert caught.value.code == code
    assert capsys.readouterr().err == f"fail: {error}\n"


def test_an_unexpected_error_is_exit_6() -> None:
    """Loudly, and without waiting for threads that may stand still."""
    code = "import click\nfrom ringonce import cli\n@click.command()\ndef c(): 1/0\ncli._run(c, 'c')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 6
    assert "ZeroDivisionError" in done.stderr
