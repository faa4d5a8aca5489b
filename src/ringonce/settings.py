"""Settings: environment first, flags override. A process reads what its role needs and reports every fault at once.

`KAFKA_BOOTSTRAP` and `DATABASE_URL` are what deployments have anyway; everything else is `RINGONCE_*`, nested by owner:
`RINGONCE_CHANNELS__FIREBASE__TARGET`.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from ringonce.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic.fields import FieldInfo

PREFIX = "RINGONCE_"

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _node() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


class RoleSettings(BaseSettings):
    """What every role needs."""

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", populate_by_name=True
    )

    kafka_bootstrap: str = Field(min_length=1, validation_alias=AliasChoices("kafka_bootstrap", "KAFKA_BOOTSTRAP"))
    """Kafka's bootstrap servers, `host:port` separated by commas."""
    topic_prefix: str = Field("", pattern=r"^[a-zA-Z0-9._-]{0,100}$")
    """Stands before every topic's and group's name."""
    node_id: str = Field(default_factory=_node, min_length=1, max_length=200)
    """This process in headers and rows; the default is host and process id."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """How much is logged; at DEBUG one event per message."""
    log_format: Literal["auto", "json", "text"] = "auto"
    """JSON lines or lines for people; `auto` is text on a terminal and JSON elsewhere."""
    session_timeout: float = Field(10.0, ge=1.0, le=300.0)
    """Seconds after which the group gives a silent member's partitions to others; the broker has bounds of its own."""
    max_poll_interval: float = Field(300.0, ge=1.0, le=86_400.0)
    """Seconds without a poll after which a member gives its partitions up by itself; the session timeout at least."""
    metrics_port: int | None = Field(None, ge=1, le=65_535)
    """Serves /metrics, /healthz and /readyz on this port; off when unset."""
    metrics_host: str = Field("127.0.0.1", min_length=1)
    """The address that the port is on; whoever can reach it can read it."""
    tracing: Literal["off", "otlp"] = "off"
    """Whether spans are sent by OTLP; needs `ringonce[otel]`, and takes OpenTelemetry's own `OTEL_*` variables."""


class StoreSettings(RoleSettings):
    """What a role that writes needs."""

    database_url: SecretStr = Field(min_length=1, validation_alias=AliasChoices("database_url", "DATABASE_URL"))
    """PostgreSQL as a libpq URL."""


class SenderSettings(StoreSettings):
    """What a sender of any channel needs beside."""

    attempts: Literal["off", "failures", "all"] = "failures"
    """Which calls a sender keeps for `ringonce trace`: those that failed, and the last one of a record that had any."""
    one_core: Literal["auto", "off"] = "auto"
    """Whether a sender that uses about one CPU core stays on one; Python's lock makes two slower. Linux only."""


class RouterSettings(RoleSettings):
    """What the router needs."""

    channel_names: Annotated[tuple[str, ...] | None, NoDecode] = None
    """The configured channels, separated by commas; firebase, apns and webhook when unset."""

    @field_validator("channel_names", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return _words(value)


class ExporterSettings(StoreSettings, RouterSettings):
    """What the exporter needs."""

    metrics_port: int | None = Field(9460, ge=1, le=65_535)
    """Serves /metrics, /healthz and /readyz on this port."""
    exporter_interval: float = Field(5.0, ge=0.1, le=300.0)
    """Seconds between two looks at Kafka and at the database, which is given more when counting takes long."""


class DatabaseSettings(BaseSettings):
    """What the database tools need."""

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(frozen=True, extra="ignore", populate_by_name=True)
    database_url: SecretStr = Field(min_length=1, validation_alias=AliasChoices("database_url", "DATABASE_URL"))


class _Environment(EnvSettingsSource):
    """Hands on what is no JSON where JSON should be: it is then a fault among the others, not one that hides them."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        """See `EnvSettingsSource`."""
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            return value


class _OwnSettings(BaseSettings):
    """Settings of one channel: `RINGONCE_CHANNELS__<NAME>__*`."""

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(
        frozen=True, extra="ignore", populate_by_name=True, env_nested_delimiter="__"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - there is no such file; pydantic-settings' names
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags first, then the environment."""
        assert isinstance(env_settings, EnvSettingsSource)  # noqa: S101 - for the type checker
        prefix, delimiter = env_settings.env_prefix, env_settings.env_nested_delimiter
        return init_settings, _Environment(settings_cls, env_prefix=prefix, env_nested_delimiter=delimiter)


class SemanticsSettings(_OwnSettings):
    """What a channel promises (docs/semantics.md)."""

    semantics: str = ""
    """`effectively-once`, `at-most-once` or `bounded(n)`; the protocol's own when unset (docs/semantics.md)."""
    on_exhausted: Literal["drop", "dlq"] = "drop"
    """Under `bounded(n)`: what becomes of a record that has been sent n times."""
    on_refused: Literal["retry", "unknown"] = "retry"
    """Under `at-most-once`: whether a refusal (408, 409, 5xx) means that nothing was done, or that nobody can tell."""


class DeliverySettings(SemanticsSettings):
    """What a sender needs to know of its channel, whatever its protocol."""

    max_in_flight: int = Field(256, ge=1, le=4096)
    """Send slots at most. A sender begins with 64 and has more while the provider's latency does not suffer."""
    max_attempts: int = Field(3, ge=1, le=20)
    """Provider calls within one stage; under `bounded(n)` one unless it is set."""
    breaker_period: float = Field(5.0, gt=0, le=3600)
    """Seconds for which the circuit breaker stays open before it lets a probe through."""
    delays: dict[str, Seconds] = Field(default_factory=dict)
    """Seconds by retry stage, in place of the stage's own: `RINGONCE_CHANNELS__FIREBASE__DELAYS={"retry-30s": 2}`."""


class HttpSettings(DeliverySettings):
    """What a channel that speaks HTTP needs beside."""

    http_client: Literal["pyreqwest", "httpx"] = "pyreqwest"
    """What speaks HTTP: pyreqwest is several times faster, httpx the second implementation of the same port."""


class ChannelSettings(HttpSettings):
    """What a channel needs whose protocol is our signed POST."""

    target: str = Field(min_length=1)
    """Where to post; for webhook, where to post what has no target of its own."""
    secret: SecretStr = Field(min_length=1)
    """Signs the body of every call."""
    allow_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """`host:port` of targets that may be called beside `target`'s own, separated by commas."""
    body: Literal["json", "protobuf"] = "json"
    """What is posted: the notification's canonical JSON, or the payload's own bytes."""

    @field_validator("allow_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return _words(value)


class NtfySettings(HttpSettings):
    """What the channel ntfy needs."""

    target: str = Field(min_length=1)
    """The ntfy server's URL; a notification's target is the topic."""
    token: SecretStr = SecretStr("")
    """The access token; none for a server that anybody may publish to."""
    topic: str = Field("", pattern=r"^[A-Za-z0-9_-]{0,64}$")
    """The topic of notifications without a target; without it they are rejected."""


class EmailSettings(DeliverySettings):
    """What the channel email needs."""

    target: str = Field(min_length=1)
    """The mail server: `smtps://host:465` speaks TLS from the first byte, `smtp://host:587` after STARTTLS."""
    from_address: str = Field(min_length=1)
    """Whom mails come from: `news@example.org`, or `Example <news@example.org>`."""
    username: str = ""
    """For a server that wants to know whom it serves; needs `PASSWORD`."""
    password: SecretStr = SecretStr("")
    """The user's."""
    starttls: Literal["required", "off"] = "required"
    """Whether `smtp://` refuses a server without STARTTLS, or speaks in the clear: for a server on this machine."""
    ca_file: str = ""
    """PEM file with the certificates to trust instead of the system's."""
    templates: str = ""
    """Folder with `<template>.txt` and, if wanted, `<template>.html` (Jinja2); the package's own without."""
    template: str = Field("notification", pattern=r"^[A-Za-z0-9_-]{1,64}$")
    """Which template mails are made from."""
    unsubscribe: str = ""
    """List-Unsubscribe: a `mailto:` or `https:` URL, with `{id}` and `{user}` for the notification's and its user's."""


def _words(value: object) -> object:
    return tuple(word.strip() for word in value.split(",") if word.strip()) if isinstance(value, str) else value


S = TypeVar("S", bound=BaseSettings)


class Loader:
    """Loads settings, gathering faults over several classes before it complains."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def load(self, kind: type[S], flags: Mapping[str, Any], prefix: str = "") -> S | None:
        """The settings, or None when there are faults; flags that are None count as not given."""
        given: dict[str, Any] = {name: value for name, value in flags.items() if value not in (None, ())}
        if prefix:
            given["_env_prefix"] = prefix  # how pydantic-settings is told at run time
        try:
            return kind(**given)
        except ValidationError as error:
            env_prefix = prefix or str(kind.model_config.get("env_prefix", ""))
            self.faults += [_fault(one, env_prefix) for one in error.errors()]
            return None

    def check(self) -> None:
        """Complain about everything at once.

        Raises:
            ConfigurationError: there were faults.
        """
        if self.faults:
            raise ConfigurationError(self.faults)


def _fault(error: Any, prefix: str) -> str:
    where = [str(part) for part in error["loc"]]
    name = where[0].upper()
    if name not in {"KAFKA_BOOTSTRAP", "DATABASE_URL"}:
        name = prefix + "__".join(part.upper() for part in where)
    what = "is not set" if error["type"] == "missing" else error["msg"][:1].lower() + error["msg"][1:]
    return f"{name} {what}" if error["type"] == "missing" else f"{name}: {what}"


def channel_prefix(channel: str) -> str:
    """The environment prefix of a channel's settings."""
    return f"{PREFIX}CHANNELS__{channel.upper()}__"


def load(kind: type[S], **flags: Any) -> S:
    """The settings of one class.

    Raises:
        ConfigurationError: all that is missing or wrong.
    """
    loader = Loader()
    settings = loader.load(kind, flags)
    loader.check()
    assert settings is not None  # noqa: S101 - check() has raised otherwise
    return settings
