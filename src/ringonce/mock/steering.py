"""What a message says about its own answer.

A delivery whose body is a notification in JSON carries `payloadJson`, a string that is JSON itself. An object `mock` in
it steers: ``{"mock": {"status": 410, "retry_after": 60, "hang": true, "times": 2}}``. Its members are knobs in small
letters, and `times`. Protobuf bodies are not steered.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ringonce.errors import ConfigurationError
from ringonce.mock.faults import Faults, Reset

MARK = b"mock"
"""No body without these bytes steers: looked for before anything is parsed, since almost none has them."""

MEMBERS = frozenset({"status", "retry_after", "hang", "reset", "latency_ms"})


@dataclass(frozen=True, slots=True)
class Steering:
    """Stands in for the provider's own faults, for this message."""

    faults: Faults
    times: int | None = None
    """the first so many requests of the key are steered, later ones are not; None: all of them"""


class Unsteerable(ValueError):  # noqa: N818 - says what the message is; it becomes a 400, not a failure of ours
    """A message means to steer and says it wrong; `str()` names every mistake."""


def steering_of(body: bytes) -> Steering | None:
    """The steering in a body, if there is any.

    Raises:
        Unsteerable: an object `mock` with unknown or wrong members. A test that misspells one should hear of it.
    """
    if MARK not in body:
        return None
    wishes = _wishes(body)
    if not wishes:
        return None
    times = wishes.pop("times", None)
    mistakes = [f"{name}: no such member" for name in wishes if name not in MEMBERS]
    if isinstance(times, bool) or not isinstance(times, int | None) or (times is not None and times < 1):
        mistakes.append("times: a whole number from 1")
        times = None
    if wishes.get("reset") == Reset.BEFORE:
        mistakes.append("reset: a message cannot ask for it before it was read")
    knobs = {name.upper(): value for name, value in wishes.items() if name in MEMBERS}
    # Who only says when to come again means "not now".
    knobs = {"STATUS": 503} | knobs if "RETRY_AFTER" in knobs else knobs
    faults = Faults(retry_after="")
    try:
        faults = faults.changed(knobs)
    except ConfigurationError as error:
        mistakes += error.faults
    if mistakes:
        raise Unsteerable("; ".join(mistakes))
    return Steering(faults, times)


def _wishes(body: bytes) -> dict[str, object]:
    """The object `mock`, or nothing: ordinary payloads may well contain the word."""
    try:
        notification = json.loads(body)
        payload = json.loads(notification["payloadJson"])
        wishes = payload["mock"]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return {}
    return wishes if isinstance(wishes, dict) else {}
