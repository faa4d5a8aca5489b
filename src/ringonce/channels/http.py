"""The calls of every channel that speaks HTTP: what such a channel adds is a destination and a request."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ringonce.channels.port import Addresses, NoReply, NotConnected
from ringonce.domain.classify import classify_status
from ringonce.domain.outcome import Indeterminate, NotSent, Outcome, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.channels.port import HttpPort, Prepared
    from ringonce.domain import classify
    from ringonce.domain.notification import Notification


class Request(NamedTuple):
    """One call, built once and used for all its tries."""

    url: str
    headers: dict[str, str]
    body: bytes


class Builder(Addresses, Protocol):
    """What a channel brings."""

    def request(self, notification: Notification, key: str, traceparent: str | None, payload: bytes) -> Request:
        """The request; see `Carrier.prepare` for what it is given and raises."""
        ...


class HttpCarrier:
    """Implements `Carrier`. `now` gives seconds since the epoch, for a Retry-After that is a date."""

    def __init__(self, builder: Builder, http: HttpPort, protocol: classify.Protocol, now: Callable[[], float]) -> None:
        self.destination = builder.destination
        self._request = builder.request
        self._http = http
        self._protocol = protocol
        self._now = now

    def prepare(self, notification: Notification, key: str, traceparent: str | None, payload: bytes) -> Prepared:
        """See `Carrier.prepare`."""
        return partial(self._post, self._request(notification, key, traceparent, payload))

    async def _post(self, request: Request, deadline: float) -> Outcome:
        try:
            reply = await self._http.post(request.url, request.headers, request.body, deadline)
        except NotConnected as error:
            return NotSent(error.detail)
        except NoReply as error:
            return Indeterminate(error.detail)
        except ValueError:
            return Rejected("the request cannot be sent: its URL or a header is invalid")
        return classify_status(self._protocol, reply.status, reply.headers, self._now())

    async def close(self) -> None:
        """See `Carrier.close`."""
        await self._http.close()
