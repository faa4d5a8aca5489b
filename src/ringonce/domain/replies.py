"""From an SMTP reply to an outcome (RFC 5321, 4.2; enhanced codes RFC 3463)."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from ringonce.domain.outcome import Gone, NotSent, Outcome, Refused, Rejected

_ENHANCED: Final = re.compile(r"\s*([245]\.[0-9]{1,3}\.[0-9]{1,3})\b")
NOT_ADMITTED: Final = frozenset({530, 534, 535, 538})
"""Replies that speak of our credentials, whichever command they answer (RFC 4954)."""

MAILBOX_UNAVAILABLE: Final = 550


class Step(Enum):
    """What a reply answers."""

    CONNECTION = auto()
    """greeting, EHLO, STARTTLS or AUTH"""
    SENDER = auto()
    RECIPIENT = auto()
    CONTENT = auto()


def classify_reply(step: Step, code: int, text: str) -> Outcome:
    """The outcome of a mail that met this reply, which is not a positive one.

    A 550 to the recipient means that there is no such mailbox, unless an enhanced code says that it is about something
    else, such as policy (5.7.1): a good address must not be retired for that.
    """
    enhanced = _ENHANCED.match(text)
    detail = f"{code} {enhanced[1]}" if enhanced else str(code)
    if step is Step.CONNECTION or code in NOT_ADMITTED:
        return NotSent(f"the mail server does not serve us: {detail}")
    if 400 <= code < 500:  # noqa: PLR2004 - the class of transient replies
        return Refused(code)
    if step is Step.RECIPIENT and (enhanced[1].startswith("5.1.") if enhanced else code == MAILBOX_UNAVAILABLE):
        return Gone(code)
    return Rejected(f"rejected with reply {detail}", code)
