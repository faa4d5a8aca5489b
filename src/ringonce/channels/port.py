"""The seams between the sender and its providers: how a channel makes its calls, and whatever speaks HTTP for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ringonce.domain.notification import Notification
    from ringonce.domain.outcome import Outcome

    Prepared = Callable[[float], Awaitable[Outcome]]
    """A call that is ready: given its deadline in seconds, it is made; as often as it has to be, the same each time."""

ANSWER_LIMIT = 4096
"""Bytes of an answer's body that are ever read; the status line decides, the body is for diagnosis only."""


class Reply(NamedTuple):
    """What the provider answered. Header names are lower-case; `body` holds at most `ANSWER_LIMIT` bytes."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class NoReply(Exception):  # noqa: N818 - the two kinds below are outcomes of a call, not programming errors
    """The call brought no usable answer; `detail` is one bounded line without address or payload."""

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(detail)


class NotConnected(NoReply):
    """No connection was made: the request cannot have reached the provider."""


class Unanswered(NoReply):
    """The request may have reached the provider: whatever failed after connecting, whatever the client calls it."""


class Unsendable(ValueError):  # noqa: N818 - what the message brought
    """The notification can never be sent as it is; the message says why, without address or payload."""


class BadTarget(Unsendable):
    """The notification's target cannot or may not be called."""


class Addresses(Protocol):
    """Whether, and where to, a channel's notifications can be sent."""

    def destination(self, notification: Notification) -> str:
        """What the call's breaker and share of the slots stand for.

        Raises:
            BadTarget: the target cannot or may not be called.
        """
        ...


class Carrier(Addresses, Protocol):
    """How a channel's calls are made."""

    def prepare(self, notification: Notification, key: str, traceparent: str | None, payload: bytes) -> Prepared:
        """The call for a notification whose destination was found good.

        What is prepared raises nothing but `asyncio.CancelledError`; cancelling ends the wait, and what is on its way
        may still arrive.

        Args:
            notification: to be delivered.
            key: the idempotency key; the root's id but for replays that ask for another.
            traceparent: of the record, where it has one.
            payload: the record's own bytes.

        Raises:
            Unsendable: it can never be sent.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class HttpPort(Protocol):
    """Posts bytes and brings back the answer.

    An adapter reads at most `ANSWER_LIMIT` bytes of the body, asks for `identity` encoding, follows no redirect and
    ignores proxy variables.
    """

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, deadline: float) -> Reply:
        """Post once. Cancelling ends the wait, not the request: what is on its way may still arrive.

        Args:
            url: absolute http or https URL.
            headers: sent as they are.
            body: sent as it is.
            deadline: seconds the whole call may take, from now to the end of what is read of the answer.

        Raises:
            NotConnected: surely nothing was sent.
            Unanswered: something may have been.
            ValueError: the URL or a header cannot be sent at all; nothing was.
        """
        ...

    async def close(self) -> None:
        """Close the connections; calls under way end as `Unanswered`, though their requests may still arrive."""
        ...
