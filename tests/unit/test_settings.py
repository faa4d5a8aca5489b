"""Settings: environment first, flags override, and every fault in one message."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ringonce.errors import ConfigurationError
from ringonce.settings import ChannelSettings, Loader, RoleSettings, RouterSettings, StoreSettings, channel_prefix, load

PASSWORD = "CANARY"  # noqa: S105 - a planted one
FULL = {
    "KAFKA_BOOTSTRAP": "broker:9092",
    "DATABASE_URL": f"postgresql://u:{PASSWORD}@db/ringonce",
    "RINGONCE_TOPIC_PREFIX": "stage.",
    "RINGONCE_NODE_ID": "node-7",
    "RINGONCE_LOG_LEVEL": "DEBUG",
    "RINGONCE_SESSION_TIMEOUT": "30",
}
PREFIX = channel_prefix("webhook")
CHANNEL = {
    f"{PREFIX}TARGET": "http://partner.example/",
    f"{PREFIX}SECRET": PASSWORD,
    f"{PREFIX}ALLOW_HOSTS": "a.example:443, b.example:80,",
    f"{PREFIX}BODY": "protobuf",
    f"{PREFIX}MAX_IN_FLIGHT": "8",
    f"{PREFIX}MAX_ATTEMPTS": "1",
    f"{PREFIX}BREAKER_PERIOD": "0.5",
    f"{PREFIX}HTTP_CLIENT": "httpx",
    f"{PREFIX}DELAYS": '{"retry-30s": 2, "retry-5m": 5.5}',
}


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in {**FULL, **CHANNEL}.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.mark.usefixtures("env")
def test_everything_comes_from_the_environment() -> None:
    """Under the names of the documentation."""
    settings = load(StoreSettings)
    assert settings.database_url.get_secret_value() == FULL["DATABASE_URL"]
    assert (settings.kafka_bootstrap, settings.topic_prefix) == ("broker:9092", "stage.")
    assert (settings.node_id, settings.log_level, settings.session_timeout) == ("node-7", "DEBUG", 30)
    channel = Loader().load(ChannelSettings, {}, PREFIX)
    assert channel is not None
    assert (channel.target, channel.body, channel.http_client) == ("http://partner.example/", "protobuf", "httpx")
    assert channel.secret.get_secret_value() == PASSWORD
    assert channel.allow_hosts == ("a.example:443", "b.example:80")
    assert (channel.max_in_flight, channel.max_attempts, channel.breaker_period) == (8, 1, 0.5)
    assert channel.delays == {"retry-30s": 2, "retry-5m": 5.5}


@pytest.mark.usefixtures("env")
def test_flags_override_and_those_not_given_do_not() -> None:
    """None and the empty tuple are how a command says that a flag was not given."""
    settings = load(RoleSettings, kafka_bootstrap="other:1", topic_prefix=None, log_level=None)
    assert (settings.kafka_bootstrap, settings.topic_prefix, settings.log_level) == ("other:1", "stage.", "DEBUG")
    channel = Loader().load(ChannelSettings, {"allow_hosts": (), "target": "http://x/", "delays": None}, PREFIX)
    assert channel is not None
    assert (channel.target, len(channel.allow_hosts), len(channel.delays)) == ("http://x/", 2, 2)


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """What need not be set."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "b:1")
    settings = load(RouterSettings)
    assert (settings.topic_prefix, settings.log_level, settings.session_timeout) == ("", "INFO", 10)
    assert settings.channel_names is None
    assert settings.node_id
    channel = Loader().load(ChannelSettings, {"target": "t", "secret": "s"}, PREFIX)
    assert channel is not None
    assert (channel.max_in_flight, channel.max_attempts, channel.body, channel.http_client) == (
        256,
        3,
        "json",
        "pyreqwest",
    )
    assert (channel.allow_hosts, channel.delays) == ((), {})


def test_channels_of_the_router(env: pytest.MonkeyPatch) -> None:
    """Separated by commas, from the environment or a flag."""
    env.setenv("RINGONCE_CHANNEL_NAMES", "firebase, apns")
    assert load(RouterSettings).channel_names == ("firebase", "apns")
    assert load(RouterSettings, channel_names="webhook").channel_names == ("webhook",)


def test_every_fault_is_in_one_message(env: pytest.MonkeyPatch) -> None:
    """Missing and wrong ones, of both classes, each under the name by which it is set."""
    env.delenv("KAFKA_BOOTSTRAP")
    env.delenv("DATABASE_URL")
    env.delenv(f"{PREFIX}SECRET")
    env.setenv("RINGONCE_LOG_LEVEL", "LOUD")
    env.setenv("RINGONCE_SESSION_TIMEOUT", "soon")
    env.setenv("RINGONCE_TOPIC_PREFIX", "a b")
    env.setenv(f"{PREFIX}MAX_ATTEMPTS", "0")
    env.setenv(f"{PREFIX}BODY", "xml")
    loader = Loader()
    assert loader.load(StoreSettings, {}) is None
    assert loader.load(ChannelSettings, {}, PREFIX) is None
    with pytest.raises(ConfigurationError) as caught:
        loader.check()
    named = [re.split(r"[: ]", fault, maxsplit=1)[0] for fault in caught.value.faults]
    assert sorted(named) == sorted(
        [
            "KAFKA_BOOTSTRAP",
            "DATABASE_URL",
            "RINGONCE_LOG_LEVEL",
            "RINGONCE_SESSION_TIMEOUT",
            "RINGONCE_TOPIC_PREFIX",
            f"{PREFIX}SECRET",
            f"{PREFIX}MAX_ATTEMPTS",
            f"{PREFIX}BODY",
        ]
    )
    assert "KAFKA_BOOTSTRAP is not set" in caught.value.faults
    assert all(fault in str(caught.value) for fault in caught.value.faults)


@pytest.mark.parametrize(
    "delays", ["soon", "{", "[1]", '{"retry-30s": "soon"}', '{"retry-30s": NaN}', '{"a": -1}', '{"a": 0}']
)
def test_delays_that_make_no_sense_are_a_fault_like_any_other(env: pytest.MonkeyPatch, delays: str) -> None:
    """Said together with the others, under the setting's name."""
    env.setenv(f"{PREFIX}DELAYS", delays)
    env.setenv(f"{PREFIX}BODY", "xml")
    loader = Loader()
    assert loader.load(ChannelSettings, {}, PREFIX) is None
    assert {
        re.split(r"[: ]", fault, maxsplit=1)[0].removeprefix(PREFIX).partition("__")[0] for fault in loader.faults
    } == {
        "DELAYS",
        "BODY",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [("KAFKA_BOOTSTRAP", ""), ("DATABASE_URL", ""), ("RINGONCE_NODE_ID", ""), ("RINGONCE_NODE_ID", "x" * 201)],
)
def test_empty_is_as_good_as_missing(env: pytest.MonkeyPatch, name: str, value: str) -> None:
    """A fault, not a default."""
    env.setenv(name, value)
    with pytest.raises(ConfigurationError, match=name):
        load(StoreSettings)


def test_no_fault_and_no_form_of_the_settings_shows_a_secret(env: pytest.MonkeyPatch) -> None:
    """Not even when something else is wrong."""
    settings: list[Any] = [load(StoreSettings), Loader().load(ChannelSettings, {}, PREFIX)]
    assert PASSWORD not in repr(settings) + str(settings)
    env.setenv("RINGONCE_LOG_LEVEL", "LOUD")
    with pytest.raises(ConfigurationError) as caught:
        load(StoreSettings)
    assert PASSWORD not in str(caught.value)
