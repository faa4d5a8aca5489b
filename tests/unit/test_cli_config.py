"""`ringonce config`: what is in force, and where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from ringonce.cli import ringonce
from ringonce.errors import ConfigurationError
from ringonce.tools.inforce import without_secrets

if TYPE_CHECKING:
    from click.testing import Result

CANARY = "CANARY"
FIREBASE = "RINGONCE_CHANNELS__FIREBASE__"


def config(*arguments: str) -> Result:
    """The command's result; its faults are in `exception`."""
    return CliRunner().invoke(ringonce, ["config", *arguments])


def shown(result: Result) -> dict[str, tuple[str, str]]:
    """Value and source by variable."""
    found = {}
    settings, _, _ = result.output.partition("\n\n")  # what is promised comes after them
    for line in settings.splitlines():
        variable, _, rest = line.partition(" ")
        value, _, source = rest.strip().rpartition("  [")
        found[variable] = (value, source.rstrip("]"))
    return found


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A sender's that is complete."""
    for name, value in {
        "KAFKA_BOOTSTRAP": "kafka:9092",
        "DATABASE_URL": f"postgresql://ringonce:{CANARY}@db/x?sslpassword={CANARY}",
        "RINGONCE_LOG_LEVEL": "DEBUG",
        f"{FIREBASE}TARGET": f"https://u:{CANARY}@relay.example/send?key={CANARY}",
        f"{FIREBASE}SECRET": CANARY,
        f"{FIREBASE}DELAYS": '{"retry-30s": 2}',
    }.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.mark.usefixtures("environment")
def test_a_senders_settings_with_their_sources() -> None:
    """Flags over the environment, the environment over defaults; a flag's delay joins those of the environment."""
    result = config(
        *("--role", "sender", "--channel", "firebase", "--topic-prefix", "t-", "--max-attempts", "2"),
        *("--delay-5m", "9s", "--target", "http://flag:1/", "--log-level", "INFO"),
    )
    assert (result.exit_code, result.exception) == (0, None)
    assert shown(result) == {
        "KAFKA_BOOTSTRAP": ("kafka:9092", "environment"),
        "RINGONCE_TOPIC_PREFIX": ("t-", "flag"),
        "RINGONCE_NODE_ID": ("(made at start)", "default"),
        "RINGONCE_LOG_LEVEL": ("INFO", "flag"),
        "RINGONCE_LOG_FORMAT": ("auto", "default"),
        "RINGONCE_SESSION_TIMEOUT": ("10", "default"),
        "RINGONCE_MAX_POLL_INTERVAL": ("300", "default"),
        "RINGONCE_METRICS_PORT": ("(none)", "default"),
        "RINGONCE_METRICS_HOST": ("127.0.0.1", "default"),
        "RINGONCE_TRACING": ("off", "default"),
        "DATABASE_URL": ("postgresql://ringonce:***@db/x?***", "environment"),
        "RINGONCE_ATTEMPTS": ("failures", "default"),
        "RINGONCE_ONE_CORE": ("auto", "default"),
        f"{FIREBASE}TARGET": ("http://flag:1/", "flag"),
        f"{FIREBASE}SECRET": ("***", "environment"),
        f"{FIREBASE}ALLOW_HOSTS": ("(none)", "default"),
        f"{FIREBASE}BODY": ("json", "default"),
        f"{FIREBASE}MAX_IN_FLIGHT": ("256", "default"),
        f"{FIREBASE}MAX_ATTEMPTS": ("2", "flag"),
        f"{FIREBASE}SEMANTICS": ("effectively-once", "default"),
        f"{FIREBASE}ON_EXHAUSTED": ("drop", "default"),
        f"{FIREBASE}ON_REFUSED": ("retry", "default"),
        f"{FIREBASE}BREAKER_PERIOD": ("5", "default"),
        f"{FIREBASE}HTTP_CLIENT": ("pyreqwest", "default"),
        f"{FIREBASE}DELAYS": ("retry-30s=2, retry-5m=9", "flag and environment"),
    }


def test_nothing_secret_is_shown(environment: pytest.MonkeyPatch) -> None:
    """Neither when all is well nor when something is wrong."""
    good = config("--role", "sender", "--channel", "firebase")
    assert (good.exit_code, CANARY in good.output) == (1, False)  # a target may not carry a user's name
    environment.setenv("RINGONCE_SESSION_TIMEOUT", "soon")
    environment.setenv("DATABASE_URL", f"host=db password={CANARY}")
    bad = config("--role", "sender", "--channel", "firebase")
    assert isinstance(bad.exception, ConfigurationError)
    assert shown(bad)["RINGONCE_SESSION_TIMEOUT"] == ("soon", "environment")
    assert CANARY not in bad.output + str(bad.exception)


@pytest.mark.parametrize(
    ("role", "own"),
    [
        (["router"], {"RINGONCE_CHANNEL_NAMES"}),
        (["router-dlq"], {"DATABASE_URL"}),
        (["dlq", "--channel", "apns"], {"DATABASE_URL"}),
    ],
)
@pytest.mark.usefixtures("environment")
def test_each_role_has_what_it_reads(role: list[str], own: set[str]) -> None:
    """And no more."""
    result = config("--role", *role)
    assert (result.exit_code, result.exception) == (0, None)
    others = ("SESSION_TIMEOUT", "MAX_POLL_INTERVAL", "METRICS_PORT", "METRICS_HOST", "TRACING")
    shared = {f"RINGONCE_{name}" for name in ("TOPIC_PREFIX", "NODE_ID", "LOG_LEVEL", "LOG_FORMAT", *others)}
    assert set(shown(result)) == {"KAFKA_BOOTSTRAP", *shared, *own}


def test_faults_are_those_of_the_role_and_what_was_given_is_still_shown(environment: pytest.MonkeyPatch) -> None:
    """All at once, exit 3 outside of this test."""
    environment.delenv("KAFKA_BOOTSTRAP")
    result = config("--role", "sender", "--channel", "firebase", "--max-attempts", "0", "--delay", "x", "--target", "y")
    assert isinstance(result.exception, ConfigurationError)
    assert result.exception.exit_code == 3
    assert [fault.split()[0].rstrip(":") for fault in result.exception.faults] == [
        "--delay",
        "KAFKA_BOOTSTRAP",
        f"{FIREBASE}MAX_ATTEMPTS",
    ]
    assert shown(result)["KAFKA_BOOTSTRAP"] == ("(not set)", "missing")
    assert shown(result)[f"{FIREBASE}MAX_ATTEMPTS"] == ("0", "flag")
    assert shown(result)["DATABASE_URL"][1] == "environment"


def test_delays_are_those_of_the_stages_where_nobody_sets_them(environment: pytest.MonkeyPatch) -> None:
    """And as given where there are no such stages."""
    environment.setenv(f"{FIREBASE}TARGET", "http://relay/")
    environment.delenv(f"{FIREBASE}DELAYS")
    result = config("--role", "sender", "--channel", "firebase")
    assert (result.exit_code, shown(result)[f"{FIREBASE}DELAYS"]) == (0, ("retry-30s=30, retry-5m=300", "default"))
    result = config("--role", "sender", "--channel", "firebase", "--delay", "retry-1h=2s")
    assert isinstance(result.exception, ConfigurationError)
    assert shown(result)[f"{FIREBASE}DELAYS"] == ("retry-1h=2", "flag")


def test_what_follows_from_the_semantics_is_shown(environment: pytest.MonkeyPatch) -> None:
    """Under a bound one call per stage, unless more are asked for."""
    environment.setenv(f"{FIREBASE}SEMANTICS", "bounded(5)")
    result = config("--role", "sender", "--channel", "firebase")
    assert shown(result)[f"{FIREBASE}SEMANTICS"] == ("bounded(5)", "environment")
    assert "\nfirebase → bounded(5): sent at most 5 times" in result.output
    assert "[bounded-after_send]" in result.output
    assert shown(result)[f"{FIREBASE}MAX_ATTEMPTS"] == ("1", "default")
    result = config("--role", "sender", "--channel", "firebase", "--max-attempts", "2")
    assert shown(result)[f"{FIREBASE}MAX_ATTEMPTS"] == ("2", "flag")


@pytest.mark.parametrize(
    ("semantics", "what"),
    [("exactly-once", "it must be effectively-once"), ("bounded(0)", "from 1"), ("bounded(-3)", "from 1")],
)
def test_bad_semantics_are_a_fault_among_the_others(environment: pytest.MonkeyPatch, semantics: str, what: str) -> None:
    """In one message with a target that is missing."""
    environment.delenv(f"{FIREBASE}TARGET")
    result = config("--role", "sender", "--channel", "firebase", "--semantics", semantics)
    assert isinstance(result.exception, ConfigurationError)
    assert result.exception.exit_code == 3
    [target, bad] = sorted(result.exception.faults, key=lambda fault: "SEMANTICS" in fault)
    assert target == f"{FIREBASE}TARGET is not set"
    assert bad.startswith(f"{FIREBASE}SEMANTICS: ")
    assert what in bad


@pytest.mark.parametrize("arguments", [["--role", "sender"], ["--role", "router", "--channel", "apns"]])
def test_a_channel_where_there_is_one(arguments: list[str]) -> None:
    assert config(*arguments).exit_code == 2


def test_a_flag_that_the_role_does_not_have() -> None:
    assert config("--role", "router", "--max-attempts", "2").exit_code == 2


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("kafka:9092", "kafka:9092"),
        ("http://relay:1/send", "http://relay:1/send"),
        (f"postgresql://u:{CANARY}@h:1/x", "postgresql://u:***@h:1/x"),
        (f"postgresql://u:{CANARY}@{CANARY}@h/x", "postgresql://u:***@h/x"),
        ("postgresql://u@h/x", "postgresql://u@h/x"),
        (f"postgresql://h/x?password={CANARY}", "postgresql://h/x?***"),
        (f"postgresql://u:{CANARY}/{CANARY}@h/x", "***"),
        (f"postgresql://u:{CANARY}#{CANARY}@h/x", "***"),
        (f"postgresql://u:{CANARY}?{CANARY}@h/x", "***"),
        (f"postgresql://u:{CANARY}@[::1/x", "***"),
    ],
)
def test_urls_without_what_is_secret(text: str, plain: str) -> None:
    """However the password is written, wrongly included."""
    assert without_secrets(text) == plain
