"""From the evidence of one call to its outcome: the only place that reads a status code."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from ringonce.domain.outcome import Delivered, Gone, Outcome, Refused, Rejected, Throttled

if TYPE_CHECKING:
    from collections.abc import Mapping

TOO_MANY_REQUESTS: Final = 429
REQUEST_TIMEOUT: Final = 408
CONFLICT: Final = 409
ADDRESS_DEAD: Final = frozenset({404, 410})
NOT_ALLOWED: Final = frozenset({401, 403})
LONGEST_RETRY_AFTER: Final = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a protocol's answers are to be read.

    `keyed`: the request carried an idempotency key, so a 409 may mean that the first call is still running.
    `addresses_die`: 404 and 410 speak of the address, not of the request.
    `credentialed`: 401 and 403 speak of credentials of ours, which somebody has to set right: no message's fault.
    """

    name: str
    keyed: bool
    addresses_die: bool
    credentialed: bool = False


RELAY: Final = Protocol("relay", keyed=True, addresses_die=False)
"""Our signed POST to a provider's relay or a partner's endpoint."""

NTFY: Final = Protocol("ntfy", keyed=False, addresses_die=False, credentialed=True)
"""A POST to a topic of an ntfy server (https://docs.ntfy.sh/publish/)."""

SMTP: Final = Protocol("smtp", keyed=False, addresses_die=True, credentialed=True)
"""Mail submission (RFC 5321, RFC 6409); its replies are read in `channels.email`."""


def classify_status(protocol: Protocol, status: int, headers: Mapping[str, str], now: float) -> Outcome:
    """The outcome of an answered call.

    Args:
        protocol: whose answer it is.
        status: the HTTP status code.
        headers: the answer's, by lower-case name.
        now: seconds since the epoch, for a Retry-After that is a date.
    """
    if 200 <= status < 300:  # noqa: PLR2004 - the class 2xx
        return Delivered(status)
    if status == TOO_MANY_REQUESTS:
        return Throttled(status, read_retry_after(headers.get("retry-after"), now))
    if status == REQUEST_TIMEOUT or 500 <= status < 600 or (status == CONFLICT and protocol.keyed):  # noqa: PLR2004
        return Refused(status, read_retry_after(headers.get("retry-after"), now))
    if protocol.credentialed and status in NOT_ALLOWED:
        # Every call meets it: the breaker opens, and everything waits for whoever is alarmed.
        return Refused(status)
    if protocol.addresses_die and status in ADDRESS_DEAD:
        return Gone(status)
    return Rejected(f"rejected with status {status}", status)


def read_retry_after(text: str | None, now: float) -> float | None:
    """Seconds to wait: delta-seconds or an HTTP date (RFC 9110, 10.2.3); None when absent or unreadable.

    A date in the past is 0; a wait of more than a week is cut to one.
    """
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max(0.0, moment.timestamp() - now), LONGEST_RETRY_AFTER)
