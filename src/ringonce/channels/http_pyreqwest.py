"""The default HTTP adapter: pyreqwest used raw, because every delivery passes here.

What is sendable and what a failed call showed is also decided here, once, for every adapter that ends in pyreqwest.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import (
    BuilderError,
    ClientClosedError,
    DecodeError,
    DetailedPyreqwestError,
    PoolTimeoutError,
    PyreqwestError,
)
from pyreqwest.http import Url

from ringonce.channels.port import ANSWER_LIMIT, NoReply, NotConnected, Reply, Unanswered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyreqwest.client import Client
    from pyreqwest.http import HeaderMap
    from pyreqwest.request import StreamRequest
    from pyreqwest.response import ResponseBodyReader

UNREADABLE = "\ufffd"
"""Stands for an answer's header value that is not ASCII: pyreqwest cannot show those."""

_URL = re.compile(r"https?://(?!/)[!-\[\]-~]+", re.IGNORECASE)  # visible ASCII without backslash
_NAMES = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]*")
_VALUES = re.compile(r"[\t -~]*")

_CONNECTING = "client error (Connect)"
_FAULTS = (  # the first phrase found among the causes names the fault
    ("dns error", "name not resolved"),
    ("connection refused", "connection refused"),
    ("too many open files", "too many open files"),
    ("deadline has elapsed", "connect timed out"),
    ("unreachable", "network unreachable"),
    ("connection timed out", "connection timed out"),
    ("certificate", "certificate refused"),
    ("tls", "TLS handshake failed"),
    ("operation timed out", "{silence}"),
    ("connection reset", "connection reset"),
    ("broken pipe", "connection reset"),
    ("connection closed", "connection closed without an answer"),
    ("http2 error", "HTTP/2 error"),
)


class PyreqwestHttp:
    """`HttpPort` over one long-lived pyreqwest client: HTTP/1.1, and HTTP/2 where TLS negotiates it.

    Cancelling the caller ends the wait at once, not the request: pyreqwest goes on with it in its own thread, even from
    connecting to sending, until an answer comes or the deadline passes. Only then is its connection free.

    Args:
        connect_timeout: seconds for name, TCP and TLS together. Keep it below the calls' deadlines: when the deadline
            comes first, nobody can tell a missing connection from a missing answer, and the call is `Unanswered`.
        idle_timeout: seconds an unused connection is kept. Below the 5 s after which common servers hang up, because
            a request written into a connection that is being closed is `Unanswered`.
        idle_per_host: unused connections kept per host; as many as there are calls in flight at once.
        max_calls: calls in flight over all hosts, or no limit; one slow host can use them all up.
    """

    def __init__(
        self,
        *,
        connect_timeout: float = 1.0,
        idle_timeout: float = 4.0,
        idle_per_host: int = 256,
        max_calls: int | None = None,
    ) -> None:
        self._client = build_client(
            connect_timeout=connect_timeout,
            idle_timeout=idle_timeout,
            idle_per_host=idle_per_host,
            max_calls=max_calls,
        )
        self._closed = False

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, deadline: float) -> Reply:
        """Post once; see `HttpPort.post`."""
        request = streamed_request(self._client, url, headers, body, deadline)
        if self._closed:
            raise NotConnected("client closed")
        cancels = cancellations()
        before = cancels()
        try:
            async with request as response:
                heed_cancellation(cancels, before)
                answered = AnsweredHeaders(response.headers)
                reply = Reply(response.status, answered, await first_bytes(response.body_reader, cancels, before))
        except PyreqwestError as error:
            heed_cancellation(cancels, before)
            raise no_reply(error, deadline) from None  # the cause names the URL
        heed_cancellation(cancels, before)
        return reply

    async def close(self) -> None:
        """Close every connection; calls under way end as `Unanswered`, later ones as `NotConnected`."""
        self._closed = True
        await self._client.close()


def build_client(*, connect_timeout: float, idle_timeout: float, idle_per_host: int, max_calls: int | None) -> Client:
    """Build a pyreqwest client that adds nothing to a request and takes nothing from its surroundings."""
    return (
        ClientBuilder()
        .connect_timeout(timedelta(seconds=connect_timeout))
        .pool_idle_timeout(timedelta(seconds=idle_timeout))
        .pool_max_idle_per_host(idle_per_host)
        .max_connections(max_calls)
        .user_agent("ringonce")
        .default_headers({"accept-encoding": "identity"})
        .http1_lower_case_headers()
        .gzip(enable=False)
        .brotli(enable=False)
        .zstd(enable=False)
        .deflate(enable=False)
        .follow_redirects(enable=False)
        .referer(enable=False)
        .default_cookie_store(enable=False)
        .no_proxy()
        .http2(enable=True)
        # One HTTP/2 connection carries many calls: a dead one must not let each of them run into its deadline.
        .http2_keep_alive_interval(timedelta(seconds=10))
        .http2_keep_alive_timeout(timedelta(seconds=5))
        .build()
    )


def streamed_request(
    client: Client, url: str, headers: Mapping[str, str], body: bytes, deadline: float | None
) -> StreamRequest:
    """Build a POST that is answered as soon as the status line and the headers are there.

    A read buffer of zero is what makes it so: with any other, pyreqwest reads that much of the body first, and a body
    that is cut or dribbled takes the status line down with it.

    Raises:
        ValueError: the URL or a header cannot be sent; the message repeats neither.
        NotConnected: no time is left.
    """
    check_headers(headers)
    builder = client.post(parsed_url(url)).headers(headers).body_bytes(body).streamed_read_buffer_limit(0)
    if deadline is not None:
        if deadline <= 0:
            raise NotConnected("no time left")
        builder = builder.timeout(_span(deadline))
    return builder.build_streamed()


@lru_cache(maxsize=64)
def _span(seconds: float) -> timedelta:
    """Kept, because most calls have the same one."""
    return timedelta(seconds=seconds)


def cancellations() -> Callable[[], int]:
    """What counts how often the running task was asked to stop."""
    task = asyncio.current_task()
    return task.cancelling if task else _never


def _never() -> int:
    return 0


def heed_cancellation(cancels: Callable[[], int], before: int) -> None:
    """Raise the cancellation that came since `before` was counted; to be called after every await on pyreqwest.

    pyreqwest takes the `CancelledError` out of its coroutine and looks, in no fixed order, whether it or a result is
    there first. When the result wins, the cancellation would be lost and the caller never stop.
    """
    if cancels() > before:
        raise asyncio.CancelledError


def check_headers(headers: Mapping[str, str]) -> None:
    """Refuse header names that are no tokens and values beyond visible ASCII, space and tab.

    pyreqwest itself would send other characters as UTF-8, which no receiver expects.
    """
    if not _tokens(tuple(headers)):
        raise ValueError("a header name cannot be sent")
    if not _VALUES.fullmatch("".join(headers.values())):
        raise ValueError("a header value cannot be sent")


@lru_cache(maxsize=64)
def _tokens(names: tuple[str, ...]) -> bool:
    """Kept, because a channel's calls differ in their values only."""
    return "" not in names and _NAMES.fullmatch("".join(names)) is not None


@lru_cache(maxsize=4096)
def parsed_url(url: str) -> Url:
    """Parse an absolute http or https URL.

    Stricter than pyreqwest's own parser, which drops line breaks, reads a backslash as a slash and does not count
    slashes: whoever checked the URL before must have seen the same host.
    """
    if not _URL.fullmatch(url):
        raise ValueError("not an absolute http or https URL")
    try:
        return Url(url)
    except ValueError:
        raise ValueError("not a valid URL") from None


class AnsweredHeaders(Mapping[str, str]):
    """An answer's headers by lower-case name; of a repeated one the last.

    They are read when somebody asks: of a delivery nobody does. A value that is not ASCII reads `UNREADABLE`.
    """

    __slots__ = ("_found", "_raw")

    def __init__(self, raw: HeaderMap) -> None:
        self._raw = raw
        self._found: dict[str, str] | None = None

    def _read(self) -> dict[str, str]:
        if self._found is None:
            try:
                self._found = dict(self._raw.items())
            except ValueError:
                names = self._raw.keys()  # iterating over them shows names only, as `items` would the values
                self._found = {name: _readable(self._raw, name) for name in names}
        return self._found

    def __getitem__(self, name: str) -> str:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())


def _readable(headers: HeaderMap, name: str) -> str:
    try:
        return headers[name]
    except ValueError:
        return UNREADABLE


async def first_bytes(reader: ResponseBodyReader, cancels: Callable[[], int], before: int) -> bytes:
    """Read up to `ANSWER_LIMIT` bytes of a body, or what came of it before it broke or the deadline passed."""
    received = b""
    while len(received) < ANSWER_LIMIT:
        try:
            chunk = await reader.read_chunk()
        except PyreqwestError:
            chunk = None  # the status line has decided already
        heed_cancellation(cancels, before)
        if chunk is None:
            break
        received += bytes(chunk)
    return received[:ANSWER_LIMIT]


def no_reply(error: PyreqwestError, deadline: float | None = None) -> NoReply | ValueError:
    """Tell what a failed call showed; its `deadline` is mentioned where it passed.

    pyreqwest's exception classes do not: a reset after the body was sent is a `ConnectError` there, a missing answer a
    `ConnectTimeoutError`. Its chain of causes does.
    """
    if isinstance(error, BuilderError):
        return ValueError("the request cannot be sent")
    if isinstance(error, PoolTimeoutError):
        return NotConnected("no free connection")
    if isinstance(error, ClientClosedError):
        return Unanswered("client closed")
    causes = _causes(error)
    # Whole messages, not parts of one: the first cause repeats the URL, which may come from outside.
    kind = NotConnected if _CONNECTING in causes else Unanswered
    said = "\n".join(causes[1:]).lower()
    silence = "no answer" if deadline is None else f"no answer within {deadline:g} s"
    if kind is NotConnected:
        silence = "connect timed out"
    for phrase, fault in _FAULTS:
        if phrase in said:
            return kind(fault.format(silence=silence))
    if isinstance(error, DecodeError):
        return kind("answer not understood")
    return kind("connect failed" if kind is NotConnected else "call failed")


def _causes(error: PyreqwestError) -> list[str]:
    if not isinstance(error, DetailedPyreqwestError):
        return []
    return [cause["message"] for cause in error.details["causes"] or ()]
