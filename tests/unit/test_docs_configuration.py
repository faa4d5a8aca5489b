"""`docs/configuration.md` says what the settings classes say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from docs import generate_configuration as generator

from ringonce.errors import ConfigurationError
from ringonce.settings import (
    ChannelSettings,
    Loader,
    RoleSettings,
    RouterSettings,
    SenderSettings,
    channel_prefix,
    load,
)
from ringonce.tools.roles import sender_command

if TYPE_CHECKING:
    from pydantic_settings import BaseSettings

# A value for every documented variable, and what the setting then is. None of them is the setting's default.
EXAMPLES = {
    "KAFKA_BOOTSTRAP": ("kafka-1:9092,kafka-2:9092", "kafka-1:9092,kafka-2:9092"),
    "RINGONCE_TOPIC_PREFIX": ("staging-", "staging-"),
    "RINGONCE_NODE_ID": ("node-1", "node-1"),
    "RINGONCE_LOG_LEVEL": ("DEBUG", "DEBUG"),
    "RINGONCE_LOG_FORMAT": ("text", "text"),
    "RINGONCE_SESSION_TIMEOUT": ("20", 20.0),
    "RINGONCE_MAX_POLL_INTERVAL": ("600", 600.0),
    "RINGONCE_METRICS_PORT": ("9464", 9464),
    "RINGONCE_METRICS_HOST": ("0.0.0.0", "0.0.0.0"),  # noqa: S104 - an example
    "RINGONCE_TRACING": ("otlp", "otlp"),
    "DATABASE_URL": ("postgresql://database/ringonce", "**********"),
    "RINGONCE_ATTEMPTS": ("all", "all"),
    "RINGONCE_ONE_CORE": ("off", "off"),
    "RINGONCE_CHANNEL_NAMES": ("firebase, apns", ("firebase", "apns")),
    "RINGONCE_CHANNELS__WEBHOOK__SEMANTICS": ("bounded(5)", "bounded(5)"),
    "RINGONCE_CHANNELS__WEBHOOK__ON_EXHAUSTED": ("dlq", "dlq"),
    "RINGONCE_CHANNELS__WEBHOOK__ON_REFUSED": ("unknown", "unknown"),
    "RINGONCE_CHANNELS__WEBHOOK__MAX_IN_FLIGHT": ("8", 8),
    "RINGONCE_CHANNELS__WEBHOOK__MAX_ATTEMPTS": ("2", 2),
    "RINGONCE_CHANNELS__WEBHOOK__BREAKER_PERIOD": ("30", 30.0),
    "RINGONCE_CHANNELS__WEBHOOK__DELAYS": ('{"retry-30s": 2}', {"retry-30s": 2.0}),
    "RINGONCE_CHANNELS__WEBHOOK__HTTP_CLIENT": ("httpx", "httpx"),
    "RINGONCE_CHANNELS__WEBHOOK__TARGET": ("https://relay.example/send", "https://relay.example/send"),
    "RINGONCE_CHANNELS__WEBHOOK__SECRET": ("hush", "**********"),
    "RINGONCE_CHANNELS__WEBHOOK__ALLOW_HOSTS": ("a.example:443,b.example:443", ("a.example:443", "b.example:443")),
    "RINGONCE_CHANNELS__WEBHOOK__BODY": ("protobuf", "protobuf"),
}

OWN = tuple(channel_prefix(name) for _, name in generator.OWN)
"""Of channels with settings of their own."""


def documented_variables() -> list[str]:
    """The variables of the roles' tables in the page, for the channel webhook."""
    roles = generator.page().partition("## The exporter")[0]
    return [
        found.replace("<CHANNEL>", "WEBHOOK")
        for found in re.findall(r"^\| `([A-Z_<>]+)` \|", roles, flags=re.MULTILINE)
        if not found.startswith(OWN)
    ]


def owner(variable: str) -> tuple[type[BaseSettings], str, str]:
    """The class that reads a variable, its prefix, and the field's name."""
    prefix = channel_prefix("webhook")
    if variable.startswith(prefix):
        return ChannelSettings, prefix, variable.removeprefix(prefix).lower()
    if variable in {"DATABASE_URL", "RINGONCE_ATTEMPTS", "RINGONCE_ONE_CORE"}:
        return SenderSettings, "", variable.removeprefix("RINGONCE_").lower()
    return RouterSettings, "", variable.removeprefix("RINGONCE_").lower()


def test_the_page_is_what_would_be_generated() -> None:
    """Red means: a setting, an option or a knob has changed; run `python docs/generate_configuration.py`."""
    assert generator.PAGE.read_text(encoding="utf-8") == generator.page()


def test_every_setting_is_in_the_page_once() -> None:
    fields = [
        *RoleSettings.model_fields,
        *("database_url", "attempts", "one_core", "channel_names"),
        *ChannelSettings.model_fields,
    ]
    assert [owner(variable)[2] for variable in documented_variables()] == fields


def test_every_setting_has_a_meaning() -> None:
    kinds = ((RoleSettings, ""), (SenderSettings, ""), (ChannelSettings, ""))
    lines = [line for kind, prefix in kinds for line in generator.settings(kind, sender_command, prefix)]
    assert [line.variable for line in lines if not line.meaning] == []


def test_every_documented_variable_has_an_example() -> None:
    assert documented_variables() == list(EXAMPLES)


@pytest.mark.parametrize("variable", EXAMPLES)
def test_a_documented_variable_sets_its_setting(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for required in ("KAFKA_BOOTSTRAP", "DATABASE_URL", *(channel_prefix("webhook") + x for x in ("TARGET", "SECRET"))):
        monkeypatch.setenv(required, "something else")
    text, meant = EXAMPLES[variable]
    monkeypatch.setenv(variable, text)
    kind, prefix, field = owner(variable)
    settings = Loader().load(kind, {}, prefix)
    value = getattr(settings, field)
    assert (str(value) if value.__class__.__name__ == "SecretStr" else value) == meant


def test_the_flag_wins_over_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "kafka:9092")
    monkeypatch.setenv("RINGONCE_NODE_ID", "from-the-environment")
    assert load(RoleSettings, node_id="from-a-flag").node_id == "from-a-flag"


def test_a_flag_replaces_all_hosts_but_one_delay_only(monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = channel_prefix("webhook")
    monkeypatch.setenv(f"{prefix}ALLOW_HOSTS", "a.example:443,b.example:443")
    monkeypatch.setenv(f"{prefix}DELAYS", '{"retry-30s": 2, "retry-5m": 9}')
    flags = {"target": "http://relay.example", "secret": "hush", "allow_hosts": ("c.example:443",)}
    settings = Loader().load(ChannelSettings, {**flags, "delays": {"retry-5m": 4.0}}, prefix)
    assert settings is not None
    assert settings.allow_hosts == ("c.example:443",)
    assert settings.delays == {"retry-30s": 2.0, "retry-5m": 4.0}


def test_an_empty_variable_is_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "kafka:9092")
    monkeypatch.setenv("RINGONCE_NODE_ID", "")
    with pytest.raises(ConfigurationError, match="RINGONCE_NODE_ID"):
        load(RoleSettings)
