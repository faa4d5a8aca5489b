"""Which settings are in force, and where each comes from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pydantic import AliasChoices, SecretStr

from ringonce.settings import Loader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic.fields import FieldInfo
    from pydantic_settings import BaseSettings

MASK: Final = "***"
UNSET: Final = "(not set)"
NOTHING: Final = "(none)"


class Source(Enum):
    """Where a value comes from."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    BOTH = "flag and environment"
    DEFAULT = "default"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class InForce:
    """One setting: the variable's name, the value for a person (no secret in it), and its source."""

    variable: str
    value: str
    source: Source


def in_force(kind: type[BaseSettings], flags: Mapping[str, Any], prefix: str = "") -> list[InForce]:
    """Every setting of a class as a role would have it; where one is wrong, all are shown as they were given.

    Args:
        kind: the settings class.
        flags: values given by flag, by the field's name; None and () are not given.
        prefix: of the variables, where it is not the class's own.
    """
    loaded = Loader().load(kind, flags, prefix)
    environment = {name.lower(): value for name, value in os.environ.items()}
    found = []
    for name, field in kind.model_fields.items():
        variable = _variable(name, field, prefix or str(kind.model_config.get("env_prefix", "")))
        flag, outer = flags.get(name), environment.get(variable.lower())
        source = _source(field, given=flag not in (None, ()), set_outside=outer is not None)
        if loaded is not None:
            value: object = getattr(loaded, name)
        else:
            value = flag if source is Source.FLAG else outer if outer is not None else _default(field)
        found.append(InForce(variable, _shown(name, field, value, source), source))
    return found


def _variable(name: str, field: FieldInfo, prefix: str) -> str:
    alias = field.validation_alias
    return str(alias.choices[-1]) if isinstance(alias, AliasChoices) else f"{prefix}{name.upper()}"


def _source(field: FieldInfo, *, given: bool, set_outside: bool) -> Source:
    if given and set_outside and field.default_factory is dict:  # a flag names single entries of it
        return Source.BOTH
    if given:
        return Source.FLAG
    if set_outside:
        return Source.ENVIRONMENT
    return Source.MISSING if field.is_required() else Source.DEFAULT


def _default(field: FieldInfo) -> object:
    return None if field.is_required() else field.get_default(call_default_factory=True, validated_data={})


def _shown(name: str, field: FieldInfo, value: object, source: Source) -> str:
    """A value as a person writes it."""
    if source is Source.MISSING:
        return UNSET
    if source is Source.DEFAULT and field.default_factory not in (None, dict):
        return "(made at start)"
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if field.annotation is SecretStr:
        # A database's URL is worth seeing but for its password; libpq's other form is not taken apart here.
        return without_secrets(str(text)) if name == "database_url" and "://" in str(text) else MASK
    return _plain(text)


def _plain(value: object) -> str:
    match value:
        case dict():
            return ", ".join(f"{key}={part:g}" for key, part in value.items()) or NOTHING
        case tuple():
            return ",".join(map(str, value)) or NOTHING
        case float():
            return f"{value:g}"
        case None | "":
            return NOTHING
        case _:
            return without_secrets(str(value))


def without_secrets(text: str) -> str:
    """A URL without its password and query; other text as it is."""
    if "://" not in text:
        return text
    try:
        parts = urlsplit(text)
    except ValueError:
        return MASK
    if "@" in f"{parts.path}{parts.query}{parts.fragment}":  # a password with a delimiter in it is cut elsewhere
        return MASK
    user, at, host = parts.netloc.rpartition("@")
    user = f"{user.partition(':')[0]}:{MASK}" if ":" in user else user
    return parts._replace(netloc=f"{user}{at}{host}", query=MASK if parts.query else "", fragment="").geturl()
