"""The second HTTP adapter: httpx, over pyreqwest's connections unless it is given another transport.

httpx's own pool is never used for traffic: it slows down with the calls in flight, and cancelled calls leak its slots.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Self, cast

import httpx
from pyreqwest.exceptions import PyreqwestError

from ringonce.channels.http_pyreqwest import (
    AnsweredHeaders,
    build_client,
    cancellations,
    check_headers,
    heed_cancellation,
    no_reply,
    parsed_url,
    streamed_request,
)
from ringonce.channels.port import ANSWER_LIMIT, NoReply, NotConnected, Reply, Unanswered

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from pyreqwest.request import StreamRequest
    from pyreqwest.response import Response

_HEADERS = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "ringonce"}

_DEADLINE = "deadline"
"""Request extension: seconds after which the transport, too, gives the call up and frees its connection."""

_FAULTS: tuple[tuple[type[Exception], type[NoReply], str], ...] = (
    # The transport of any argument: httpx's names for what failed while connecting can be believed.
    (httpx.ConnectTimeout, NotConnected, "connect timed out"),
    (httpx.PoolTimeout, NotConnected, "no free connection"),
    (httpx.ConnectError, NotConnected, "connect failed"),
    (httpx.TimeoutException, Unanswered, "no answer within {deadline:g} s"),
    (TimeoutError, Unanswered, "no answer within {deadline:g} s"),
    (httpx.NetworkError, Unanswered, "connection lost"),
    (httpx.ProtocolError, Unanswered, "answer not understood"),
)


class HttpxHttp:
    """`HttpPort` over an `httpx.AsyncClient` that keeps no cookies and reads no environment.

    Args:
        transport: what carries the requests; `PyreqwestTransport` by default, `httpx.MockTransport` in tests.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport | None = None) -> None:
        # At INFO httpx writes every URL, and with it tokens and phone numbers.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        self._client = httpx.AsyncClient(
            transport=transport or PyreqwestTransport(),
            timeout=None,  # noqa: S113 - the deadline around the whole call is the timeout
            follow_redirects=False,
            trust_env=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            headers=_HEADERS,
        )
        del self._client.headers["connection"]  # the transport's business, and forbidden in HTTP/2
        self._closed = False

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, deadline: float) -> Reply:
        """Post once; see `HttpPort.post`."""
        request = self._request(url, headers, body, deadline)
        if self._closed:
            raise NotConnected("client closed")
        if deadline <= 0:
            raise NotConnected("no time left")
        response: httpx.Response | None = None
        received = bytearray()
        try:
            async with asyncio.timeout(deadline):
                response = await self._client.send(request, stream=True)
                await _read_beginning(response, received)
        except (TimeoutError, httpx.HTTPError, NoReply) as error:
            if response is None:
                raise _no_reply(error, deadline) from None  # the cause may name the URL
            # Otherwise the status line has decided already.
        finally:
            if response is not None:
                await response.aclose()
        return Reply(response.status_code, dict(response.headers.multi_items()), bytes(received[:ANSWER_LIMIT]))

    async def close(self) -> None:
        """Close every connection; calls under way end as `Unanswered`, later ones as `NotConnected`."""
        self._closed = True
        await self._client.aclose()

    def _request(self, url: str, headers: Mapping[str, str], body: bytes, deadline: float) -> httpx.Request:
        check_headers(headers)
        parsed_url(url)
        try:
            return self._client.build_request(
                "POST", url, headers=dict(headers), content=body, extensions={_DEADLINE: deadline}
            )
        except (httpx.InvalidURL, ValueError):
            raise ValueError("not a valid URL") from None


async def _read_beginning(response: httpx.Response, received: bytearray) -> None:
    # The stream itself, because `aiter_raw` refuses answers that came whole, as from `httpx.MockTransport`. A client's
    # stream iterates as an async generator, whatever its annotation says: left early, it has to be closed.
    chunks = cast("AsyncGenerator[bytes]", aiter(cast("httpx.AsyncByteStream", response.stream)))
    async with aclosing(chunks):
        async for chunk in chunks:
            received += chunk
            if len(received) >= ANSWER_LIMIT:
                break


def _no_reply(error: TimeoutError | httpx.HTTPError | NoReply, deadline: float) -> NoReply:
    if isinstance(error, NoReply):
        return error
    for failure, kind, detail in _FAULTS:
        if isinstance(error, failure):
            return kind(detail.format(deadline=deadline))
    return Unanswered("call failed")


class PyreqwestTransport(httpx.AsyncBaseTransport):
    """httpx's seam to pyreqwest, for POSTs.

    The transport that pyreqwest brings along loses the status line when the body breaks, fails on answers with header
    values that are not ASCII, and calls reset, refused and unanswered alike. This one fails with `NoReply`.
    """

    def __init__(self, *, connect_timeout: float = 1.0) -> None:
        self._client = build_client(
            connect_timeout=connect_timeout, idle_timeout=4.0, idle_per_host=256, max_calls=None
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send, and return as soon as status line and headers are there."""
        deadline: float | None = request.extensions.get(_DEADLINE)
        posted = streamed_request(self._client, str(request.url), request.headers, request.content, deadline)
        cancels = cancellations()
        before = cancels()
        try:
            response = await posted.__aenter__()  # left when httpx closes the stream
        except PyreqwestError as error:
            heed_cancellation(cancels, before)
            raise no_reply(error, deadline) from None
        heed_cancellation(cancels, before)  # with an answer in hand, its connection is free when the deadline passes
        headers = [(name.encode(), value.encode()) for name, value in AnsweredHeaders(response.headers).items()]
        return httpx.Response(response.status, headers=headers, stream=_Body(posted, response))

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.close()


class _Body(httpx.AsyncByteStream):
    """The body of one answer, chunk by chunk."""

    def __init__(self, posted: StreamRequest, response: Response) -> None:
        self._posted, self._reader = posted, response.body_reader

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        cancels = cancellations()
        before = cancels()
        try:
            chunk = await self._reader.read_chunk()
        except PyreqwestError as error:
            heed_cancellation(cancels, before)
            raise no_reply(error) from None
        heed_cancellation(cancels, before)
        if chunk is None:
            raise StopAsyncIteration
        return bytes(chunk)

    async def aclose(self) -> None:
        """Let go of the connection; httpx calls this once."""
        cancels = cancellations()
        before = cancels()
        await self._posted.__aexit__(None, None, None)
        heed_cancellation(cancels, before)
