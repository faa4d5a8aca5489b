"""`ringonce mocks …`: talks to the mock providers that are running."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPException
from typing import Any, Final

import click

from ringonce.errors import ServerUnreachable

PORTS: Final = {"firebase": 8091, "apns": 8092, "webhook": 8093}
TIMEOUT: Final = 5.0


def _ask(method: str, port: int, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        text = response.read()
    except (OSError, HTTPException) as error:
        raise ServerUnreachable("mock provider", f"127.0.0.1:{port}", str(error)) from error
    finally:
        connection.close()
    answer: dict[str, Any] = json.loads(text)
    if response.status >= 400:  # noqa: PLR2004 - the class of errors
        raise click.UsageError(str(answer.get("error", answer)))
    return answer


@click.group()
def mocks() -> None:
    """Make the mock providers fail, and see what they got."""


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


@mocks.command()
@click.argument("knobs", nargs=-1, required=True, metavar="KNOB=VALUE...")
@click.option("--only", type=click.Choice(sorted(PORTS)), help="One of them; all without.")
def chaos(knobs: tuple[str, ...], only: str | None) -> None:
    """Turn knobs on the running mocks.

    Example: ringonce mocks chaos FAIL_RATE_503=0.5 LATENCY_MS=20
    """
    settings = {}
    for knob in knobs:
        name, equals, value = knob.partition("=")
        if not equals:
            raise click.UsageError(f"{knob!r} is not KNOB=VALUE")
        settings[name] = _value(value)
    for name, port in PORTS.items():
        if only in (None, name):
            _ask("POST", port, "/chaos", settings)
            click.echo(f"{name}: {' '.join(knobs)}")


@mocks.command()
def clear() -> None:
    """Make the running mocks healthy again.

    Example: ringonce mocks clear
    """
    for name, port in PORTS.items():
        _ask("POST", port, "/chaos", {"reset": True})
        click.echo(f"{name}: healthy")


@mocks.command()
def stats() -> None:
    """Show what the running mocks got: requests, acts, keys, duplicates.

    Example: ringonce mocks stats
    """
    columns = ("requests", "acts", "keys", "duplicates")
    click.echo(f"{'mock':<10}" + "".join(f"{column:>12}" for column in columns))
    for name, port in PORTS.items():
        answer = _ask("GET", port, "/stats")
        click.echo(f"{name:<10}" + "".join(f"{answer.get(column, '-'):>12}" for column in columns))
