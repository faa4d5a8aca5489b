"""The paths that are no deliveries: health, stats, acts, chaos and reset."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from ringonce.errors import ConfigurationError

if TYPE_CHECKING:
    from ringonce.mock.provider import Provider

PATHS = {"/health": "GET", "/stats": "GET", "/acts": "GET", "/chaos": "POST", "/reset": "POST"}
"""Every control path and its method; a POST to any other path is a delivery."""

ACTS_AT_ONCE = 10_000
"""Lines of one answer of `GET /acts`, so that none stalls the provider; asking on gets the rest."""

JSON = "application/json"
JSON_LINES = "application/jsonl"


@dataclass(frozen=True, slots=True)
class Page:
    """A control path's answer."""

    status: int
    body: bytes
    media: str = JSON


def path_of(target: bytes) -> str:
    """The path of a request target, in origin or absolute form."""
    text = target.decode("latin-1")
    if text.startswith("/"):
        return text.partition("?")[0]
    try:
        return urlsplit(text).path
    except ValueError:
        return text


def control(provider: Provider, method: str, target: bytes, body: bytes) -> Page:
    """Answer a request that is no delivery: one for a path of `PATHS`, or one that is no POST."""
    path = path_of(target)
    wanted = PATHS.get(path, "POST")
    if method != wanted and (method, wanted) != ("HEAD", "GET"):
        return _page(405, {"error": f"{path} takes {wanted}"})
    match path:
        case "/health":
            page = _page(200, {"name": provider.name, "status": "ok"})
        case "/stats":
            page = _page(200, provider.stats())
        case "/acts":
            page = _acts(provider, target)
        case "/chaos":
            page = _chaos(provider, body)
        case "/reset":
            provider.forget()
            page = _page(200, {"status": "ok"})
        case _:
            page = _page(404, {"error": f"{path} is no control path"})
    return page


def _acts(provider: Provider, target: bytes) -> Page:
    asked = parse_qs(urlsplit(target.decode("latin-1")).query).get("since", ["0"])[-1]
    if not asked.isdecimal() or len(asked) > 18:  # noqa: PLR2004 - beyond any count
        return _page(400, {"error": "since: the number of the last act that was seen"})
    lines = [json.dumps(act.as_json()) + "\n" for act in provider.acts(int(asked), ACTS_AT_ONCE)]
    return Page(200, "".join(lines).encode(), JSON_LINES)


def _chaos(provider: Provider, body: bytes) -> Page:
    try:
        knobs = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        return _page(400, {"error": "the body is no JSON"})
    if not isinstance(knobs, dict):
        return _page(400, {"error": "the body is no JSON object"})
    try:
        faults = provider.chaos(knobs)
    except ConfigurationError as error:
        return _page(400, {"error": "nothing was changed", "faults": error.faults})
    return _page(200, faults.as_knobs())


def _page(status: int, content: dict[str, object]) -> Page:
    return Page(status, json.dumps(content).encode() + b"\n")
