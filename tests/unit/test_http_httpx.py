"""The httpx adapter with a transport of the caller's."""

from __future__ import annotations

import asyncio
import logging

import httpx
import pytest

from ringonce.channels.http_httpx import HttpxHttp
from ringonce.channels.port import ANSWER_LIMIT, NoReply, NotConnected, Reply, Unanswered

URL = "http://provider.example/send?to=1"


async def test_mock_transport_answers() -> None:
    """Any httpx transport will do; it sees the request as it would be sent."""
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(429, headers=[("Retry-After", "7"), ("X-A", "1"), ("X-A", "2")], content=b"slow down")

    http = HttpxHttp(httpx.MockTransport(handle))
    reply = await http.post(URL, {"idempotency-key": "k"}, b"body", 5)
    await http.close()
    assert reply == Reply(429, {"retry-after": "7", "x-a": "2", "content-length": "9"}, b"slow down")
    (request,) = seen
    assert (str(request.url), request.content, request.headers["idempotency-key"]) == (URL, b"body", "k")
    assert "connection" not in request.headers


async def test_answer_of_a_mock_transport_is_cut_to_the_limit() -> None:
    """The limit is the adapter's, whatever the transport hands out at once."""
    http = HttpxHttp(httpx.MockTransport(lambda _: httpx.Response(200, content=b"x" * (ANSWER_LIMIT + 1))))
    reply = await http.post(URL, {}, b"", 5)
    await http.close()
    assert reply.body == b"x" * ANSWER_LIMIT


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (httpx.ConnectError, NotConnected),
        (httpx.ConnectTimeout, NotConnected),
        (httpx.PoolTimeout, NotConnected),
        (httpx.ReadError, Unanswered),
        (httpx.ReadTimeout, Unanswered),
        (httpx.WriteError, Unanswered),
        (httpx.WriteTimeout, Unanswered),
        (httpx.CloseError, Unanswered),
        (httpx.RemoteProtocolError, Unanswered),
        (httpx.DecodingError, Unanswered),
        (httpx.TooManyRedirects, Unanswered),
    ],
)
async def test_failures_of_a_transport_are_told_apart(failure: type[httpx.RequestError], kind: type[NoReply]) -> None:
    """What did not fail while connecting may have been sent; httpx's own words stay out of the detail."""

    def handle(request: httpx.Request) -> httpx.Response:
        raise failure(f"cannot talk to {request.url}")

    http = HttpxHttp(httpx.MockTransport(handle))
    with pytest.raises(kind) as caught:
        await http.post(URL, {}, b"", 5)
    await http.close()
    assert "example" not in caught.value.detail


async def test_deadline_covers_a_transport_without_one() -> None:
    """The adapter waits no longer, whatever the transport does."""

    async def handle(_: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    http = HttpxHttp(httpx.MockTransport(handle))
    async with asyncio.timeout(30):  # far beyond it
        with pytest.raises(Unanswered, match=r"no answer within 0\.05 s"):
            await http.post(URL, {}, b"", 0.05)
    await http.close()


async def test_urls_stay_out_of_the_log_though_httpx_would_write_them(caplog: pytest.LogCaptureFixture) -> None:
    """The process may log at INFO or below: httpx's line with the whole URL is not among it."""
    caplog.set_level(logging.DEBUG)
    http = HttpxHttp(httpx.MockTransport(lambda _: httpx.Response(200)))
    await http.post(URL, {}, b"", 5)
    await http.close()
    assert "provider.example" not in caplog.text
