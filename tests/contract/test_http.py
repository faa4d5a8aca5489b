"""What every HTTP adapter owes the sender, against a server that misbehaves as told."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
import traceback
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.raw_http import Peer, RawHttp, Script, answer

from ringonce.channels.http_httpx import HttpxHttp, PyreqwestTransport
from ringonce.channels.http_pyreqwest import PyreqwestHttp
from ringonce.channels.port import ANSWER_LIMIT, HttpPort, NoReply, NotConnected, Reply, Unanswered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

AMPLE = 10.0  # seconds; a deadline that no test means to reach
SHORT = 0.5  # seconds; a deadline that is meant to pass
GUARD = 30.0  # seconds; an adapter that is still busy by then ignores deadlines
PACE = 0.05  # seconds between the pieces of a dribbled answer
CONNECT_TIMEOUT = 0.2
CANARY = "canary-4917"
HEADERS = {"idempotency-key": CANARY, "x-channel": "firebase"}
BODY = b'{"id": "\x00\xff"}\r\n\r\n'


@pytest.fixture(params=["pyreqwest", "httpx"])
async def port(request: pytest.FixtureRequest) -> AsyncIterator[HttpPort]:
    http: HttpPort
    if request.param == "pyreqwest":
        http = PyreqwestHttp(connect_timeout=CONNECT_TIMEOUT)
    else:
        http = HttpxHttp(PyreqwestTransport(connect_timeout=CONNECT_TIMEOUT))
    yield http
    await http.close()


async def post(port: HttpPort, url: str, deadline: float = AMPLE) -> Reply:
    """Post the usual thing; fails the test when the adapter does not come back."""
    try:
        async with asyncio.timeout(GUARD):
            return await port.post(url, HEADERS, BODY, deadline)
    except TimeoutError:
        pytest.fail("the deadline did not end the call")


# What is sent


async def test_body_and_headers_arrive_as_given(port: HttpPort) -> None:
    """Nothing of the request is changed, and next to nothing is added."""
    async with RawHttp(answer("200 OK")) as server:
        await post(port, server.url)
    (received,) = server.received
    assert received.line == "POST /send?to=1 HTTP/1.1"
    assert received.body == BODY
    assert received.headers == {
        **HEADERS,
        "host": f"127.0.0.1:{server.port}",
        "content-length": str(len(BODY)),
        "accept": "*/*",
        "accept-encoding": "identity",
        "user-agent": "ringonce",
    }


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "/send",
        "ftp://127.0.0.1/",
        "mailto:user@127.0.0.1",
        "http:127.0.0.1",
        "http://",
        "http:///send",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1:port/",
        "http://[::1/",
        "http://127.0.0.1/a b",
        "http://127.0.0.1/a\r\nb",
        " http://127.0.0.1/",
        "http://127.0.0.1/\x00",
        "http://127.0.0.1/é",
        "http://127.0.0.1/\ud800",
        "http://127.0.0.1\\@127.0.0.2/",
    ],
)
async def test_url_that_cannot_be_called_is_a_value_error(port: HttpPort, url: str) -> None:
    """Bad data is told apart from a provider that cannot be reached, and is not repeated in the message."""
    with pytest.raises(ValueError, match="URL") as caught:
        await port.post(url, HEADERS, BODY, AMPLE)
    assert not url.strip() or url not in str(caught.value)


@pytest.mark.parametrize(
    "headers",
    [
        {"x-a": f"{CANARY}\r\nx-b: 1"},
        {"x-a": f"{CANARY}\n"},
        {"x-a": f"{CANARY}\x00"},
        {"x-a": f"{CANARY}\x7f"},
        {"x-a": f"{CANARY}é"},
        {"x-a": f"{CANARY}€"},
        {"x-a": f"{CANARY}\ud800"},
        {CANARY + "\r\n": "1"},
        {CANARY + ":": "1"},
        {CANARY + " ": "1"},
        {CANARY + "é": "1"},
        {"": CANARY},
    ],
)
async def test_header_that_cannot_be_sent_is_a_value_error(port: HttpPort, headers: dict[str, str]) -> None:
    """Nothing is connected, smuggled or re-encoded, and the message does not repeat the header."""
    async with RawHttp(answer("200 OK")) as server:
        with pytest.raises(ValueError, match="header") as caught:
            await port.post(server.url, HEADERS | headers, BODY, AMPLE)
        assert server.connections == 0
    assert CANARY not in "".join(traceback.format_exception(caught.value))


async def test_header_value_of_visible_ascii_arrives(port: HttpPort) -> None:
    """Space and tab inside a value are as good as any visible character."""
    value = "".join(map(chr, range(0x21, 0x7F))) + " \t;"
    async with RawHttp(answer("200 OK")) as server:
        await port.post(server.url, {"x-a": value, "x-empty": ""}, BODY, AMPLE)
    assert server.received[0].headers["x-a"] == value
    assert server.received[0].headers["x-empty"] == ""


async def test_proxy_variables_are_ignored(
    port: HttpPort, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A proxy is used when it is set on purpose, never because the environment names one."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    fresh: HttpPort = PyreqwestHttp() if "pyreqwest" in request.node.name else HttpxHttp()
    async with RawHttp(answer("200 OK")) as server:
        assert (await post(port, server.url)).status == 200
        assert (await post(fresh, server.url)).status == 200
    await fresh.close()


async def test_cookies_are_not_kept(port: HttpPort) -> None:
    """What one call was given is not told to the next."""
    async with RawHttp(answer("200 OK\r\nset-cookie: a=b; path=/")) as server:
        await post(port, server.url)
        await post(port, server.url)
    assert ["cookie" in received.headers for received in server.received] == [False, False]


# What is answered


async def test_answer_has_status_headers_and_body(port: HttpPort) -> None:
    """Header names come in lower case whatever the server writes."""
    async with RawHttp(answer("200 OK\r\nX-Request-ID: Aa", b"fine\x00")) as server:
        reply = await post(port, server.url)
    assert reply == Reply(200, {"x-request-id": "Aa", "content-length": "5"}, b"fine\x00")


@pytest.mark.parametrize(
    ("head", "status", "header"),
    [
        ("204 No Content", 204, None),
        ("302 Found\r\nlocation: /elsewhere", 302, ("location", "/elsewhere")),
        ("308 Permanent Redirect\r\nlocation: /elsewhere", 308, ("location", "/elsewhere")),
        ("401 Unauthorized\r\nwww-authenticate: Basic", 401, ("www-authenticate", "Basic")),
        ("503 Service Unavailable\r\nRetry-After: 1", 503, ("retry-after", "1")),
        ("999", 999, None),
    ],
)
async def test_status_is_passed_on_and_nothing_followed(
    port: HttpPort, head: str, status: int, header: tuple[str, str] | None
) -> None:
    """No status makes an adapter call again."""
    async with RawHttp(answer(head)) as server:
        reply = await post(port, server.url)
    assert reply.status == status
    assert header is None or header in reply.headers.items()
    assert len(server.received) == 1


async def test_interim_answers_are_skipped(port: HttpPort) -> None:
    """100 and 103 come before the answer, they are not the answer."""
    async with RawHttp(
        answer("100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK", b"ok")
    ) as server:
        reply = await post(port, server.url)
    assert (reply.status, reply.body) == (200, b"ok")


async def test_chunked_answer_is_read(port: HttpPort) -> None:
    """Chunks are put together, and the connection serves the next call."""
    async with RawHttp(answer("200 OK\r\ntransfer-encoding: chunked", b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")) as server:
        replies = [await post(port, server.url) for _ in range(3)]
    assert [reply.body for reply in replies] == [b"abc"] * 3
    assert server.connections == 1


@pytest.mark.parametrize("value", ["café", "Ã©"])  # as the server writes it: one byte, and two of UTF-8
async def test_header_values_beyond_ascii_do_not_hide_the_answer(port: HttpPort, value: str) -> None:
    """The provider has acted; an odd header of its answer must not turn that into a failure."""
    async with RawHttp(answer(f"200 OK\r\nx-odd: {value}\r\nx-a: b", b"ok")) as server:
        reply = await post(port, server.url)
    assert (reply.status, reply.body, reply.headers["x-a"]) == (200, b"ok", "b")
    assert "x-odd" in reply.headers


async def test_only_the_beginning_of_a_huge_answer_is_read(port: HttpPort) -> None:
    """A provider cannot fill our memory: the rest stays where it is."""
    size = 10_000_000
    async with RawHttp(answer("200 OK", b"x" * size)) as server:
        reply = await post(port, server.url)
        await server.until(lambda: server.open == 0)
        assert server.sent < size / 4
        assert (await post(port, server.url)).status == 200
    assert (reply.status, reply.body) == (200, b"x" * ANSWER_LIMIT)


async def test_compressed_answer_is_not_unpacked(port: HttpPort) -> None:
    """It was not asked for, and a few KB of it can become a gigabyte."""
    packed = gzip.compress(bytes(1_000_000))
    async with RawHttp(answer("200 OK\r\ncontent-encoding: gzip", packed)) as server:
        reply = await post(port, server.url)
    assert reply.body == packed[:ANSWER_LIMIT]


# What is answered only in part: the status line decides

PARTIAL = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nabc"


async def cut_in_body(peer: Peer) -> None:
    await peer.request()
    await peer.send(PARTIAL)


async def reset_in_body(peer: Peer) -> None:
    await peer.request()
    await peer.send(PARTIAL)
    peer.reset()


async def hang_in_body(peer: Peer) -> None:
    await peer.request()
    await peer.send(PARTIAL)
    await peer.gone()


async def dribble_body(peer: Peer) -> None:
    await peer.request()
    await peer.send(PARTIAL)
    await peer.dribble(b"d", PACE)


@pytest.mark.parametrize("script", [cut_in_body, reset_in_body, hang_in_body, dribble_body])
async def test_body_that_does_not_end_leaves_the_status(port: HttpPort, script: Script) -> None:
    """What was read of the body comes with it; the deadline covers the body, too."""
    async with RawHttp(script) as server:
        reply = await post(port, server.url, deadline=2 * SHORT)
        await server.until(lambda: server.open == 0)
    assert (reply.status, reply.body.rstrip(b"d")) == (200, b"abc")


# What is not answered


async def reset_at_once(peer: Peer) -> None:
    peer.reset()


async def close_at_once(peer: Peer) -> None:
    await peer.bytes()


async def reset_after_body(peer: Peer) -> None:
    await peer.request()
    peer.reset()


async def close_after_body(peer: Peer) -> None:
    await peer.request()


async def reset_in_headers(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\nx-a: ")
    peer.reset()


async def hang_after_body(peer: Peer) -> None:
    await peer.request()
    await peer.gone()


async def dribble_headers(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\nx-a: ")
    await peer.dribble(b"d", PACE)


async def flood_of_hints(peer: Peer) -> None:
    await peer.request()
    while True:
        await peer.send(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" * 100)


async def no_http(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"\x00\x01 220 mail ready\r\n\r\n")


async def endless_headers(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await peer.send(b"x-a: b\r\n" * 100)


NO_ANSWER = [
    close_at_once,
    reset_after_body,
    close_after_body,
    reset_in_headers,
    hang_after_body,
    dribble_headers,
    flood_of_hints,
    no_http,
    endless_headers,
]


@pytest.mark.parametrize("script", NO_ANSWER)
async def test_no_answer_is_unanswered(port: HttpPort, script: Script) -> None:
    """Once connected, the request may have been read: no failure may claim otherwise, and none is tried again."""
    async with RawHttp(script) as server:
        with pytest.raises(Unanswered) as caught:
            await post(port, f"{server.url}&token={CANARY}", deadline=SHORT)
        assert server.connections == 1
        await server.until(lambda: server.open == 0)
    assert_says_nothing_private(caught.value, server.port)


async def test_connection_reset_at_once_brings_no_reply(port: HttpPort) -> None:
    """Whether the reset comes before or after the first byte is up to the kernel: both readings are true."""
    async with RawHttp(reset_at_once) as server:
        with pytest.raises(NoReply, match="connection reset") as caught:
            await post(port, f"{server.url}&token={CANARY}")
        assert server.received == []
    assert_says_nothing_private(caught.value, server.port)


async def test_refused_connection_is_not_connected(port: HttpPort) -> None:
    """A port that nobody listens on has not seen the request."""
    async with RawHttp(answer("200 OK")) as server:
        pass
    with pytest.raises(NotConnected, match="connection refused") as caught:
        await post(port, f"{server.url}&token={CANARY}")
    assert_says_nothing_private(caught.value, server.port)


async def test_unknown_name_is_not_connected(port: HttpPort) -> None:
    """Resolving the name is part of connecting."""
    with pytest.raises(NotConnected) as caught:
        await post(port, f"http://{CANARY}.invalid/")
    assert_says_nothing_private(caught.value, 80)


async def test_connection_that_is_never_accepted_is_not_connected(port: HttpPort) -> None:
    """The connect timeout lies below the deadline, so that the two can be told apart."""
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        address = listener.getsockname()
        for _ in range(4):  # more than the backlog holds: the next connection is left unanswered
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)  # noqa: FBT003 - the socket API
            waiting.connect_ex(address)
        with pytest.raises(NotConnected, match="connect timed out"):
            await post(port, f"http://127.0.0.1:{address[1]}/")


async def test_failed_tls_handshake_is_not_connected(port: HttpPort) -> None:
    """The request follows the handshake, so it was not sent."""
    async with RawHttp(close_at_once) as server:
        with pytest.raises(NotConnected, match="TLS"):
            await post(port, server.url.replace("http:", "https:"))


@pytest.mark.parametrize("deadline", [0.0, -1.0])
async def test_no_time_left_is_not_connected(port: HttpPort, deadline: float) -> None:
    """A call that has no time is not begun."""
    async with RawHttp(answer("200 OK")) as server:
        with pytest.raises(NotConnected, match="no time left"):
            await post(port, server.url, deadline)
    assert server.connections == 0


def assert_says_nothing_private(failure: NoReply, port: int) -> None:
    """Detail and traceback are what ends up in logs and rows."""
    assert 0 < len(failure.detail) <= 60
    assert failure.detail.isprintable()
    assert str(port) not in failure.detail
    logged = "".join(traceback.format_exception(failure))
    assert CANARY not in logged
    assert "127.0.0.1" not in logged


async def test_no_address_is_logged(port: HttpPort, caplog: pytest.LogCaptureFixture) -> None:
    """The canary in the URL stands for a token or a phone number."""
    caplog.set_level(logging.INFO)
    async with RawHttp(answer("200 OK")) as server:
        await post(port, f"{server.url}&token={CANARY}")
        await post(port, f"{server.url}&token={CANARY}")
    with pytest.raises(NotConnected):
        await post(port, f"{server.url}&token={CANARY}")
    await port.close()
    assert CANARY not in caplog.text
    assert "127.0.0.1" not in caplog.text


# Connections


async def test_connection_is_used_again(port: HttpPort) -> None:
    """Calls one after the other share a connection."""
    async with RawHttp(answer("200 OK", b"ok")) as server:
        for _ in range(10):
            await post(port, server.url)
    assert (server.connections, len(server.received)) == (1, 10)


async def test_connection_closed_while_idle_costs_nothing(port: HttpPort) -> None:
    """A pooled connection that the server has closed is not taken for the next call."""
    async with RawHttp(answer("200 OK", requests=1)) as server:
        for count in range(1, 21):
            assert (await post(port, server.url)).status == 200
            await server.until(lambda: server.open == 0)
            assert server.connections == count


async def test_connection_closed_under_a_request_is_unanswered(port: HttpPort) -> None:
    """A kept connection is no licence to send again: the server may have read the request."""

    async def answers_once(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        await peer.request()

    async with RawHttp(answers_once) as server:
        assert (await post(port, server.url)).status == 200
        with pytest.raises(Unanswered):
            await post(port, server.url)
    assert (server.connections, len(server.received)) == (1, 2)


async def test_sixty_four_calls_are_in_flight_at_once(port: HttpPort) -> None:
    """No call waits for another: the server answers none before it has all."""
    everybody_is_here = asyncio.Barrier(64)

    async def waits(peer: Peer) -> None:
        request = await peer.request()
        await everybody_is_here.wait()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(request.body), request.body))

    async def numbered(number: int) -> bytes:
        return (await port.post(server.url, HEADERS, b"%d" % number, AMPLE)).body

    async with RawHttp(waits) as server, asyncio.timeout(GUARD):
        bodies = await asyncio.gather(*map(numbered, range(64)))
    assert bodies == [b"%d" % number for number in range(64)]


async def test_cancelled_calls_leave_nothing_behind(port: HttpPort) -> None:
    """Three hundred calls abandoned at every stage stop at once, and their connections go by the deadline."""
    stages = [hang_after_body, hang_in_body] * 7 + [dribble_headers]
    async with RawHttp(*stages * 20) as server, asyncio.timeout(GUARD):
        calls = [asyncio.create_task(post(port, server.url, deadline=6 * SHORT)) for _ in range(300)]
        await server.until(lambda: len(server.received) >= 150)
        for call in calls:
            call.cancel()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert [end for end in ended if not isinstance(end, asyncio.CancelledError)] == []
        await server.until(lambda: server.open == 0)
        server.scripts = (answer("200 OK", b"ok"),)
        replies = await asyncio.gather(*(post(port, server.url) for _ in range(200)))
    assert [reply.status for reply in replies] == [200] * 200


async def test_cancellation_is_not_lost_to_an_answer(port: HttpPort) -> None:
    """A caller that is told to stop at the very moment of the answer stops."""
    async with RawHttp(answer("200 OK", b"ok")) as server, asyncio.timeout(GUARD):

        async def goes_on_for_ever() -> None:
            while True:
                await port.post(server.url, HEADERS, BODY, AMPLE)

        for count in range(1, 51):
            caller = asyncio.create_task(goes_on_for_ever())
            await server.until(lambda count=count: len(server.received) >= 20 * count)  # type: ignore[misc]
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller


async def test_close_ends_calls_under_way(port: HttpPort) -> None:
    """What is under way may have been read; what comes later is not sent."""
    async with RawHttp(hang_after_body) as server:
        call = asyncio.create_task(post(port, server.url))
        await server.until(lambda: len(server.received) == 1)
        await port.close()
        with pytest.raises(Unanswered, match="client closed"):
            await call
        with pytest.raises(NotConnected, match="client closed"):
            await post(port, server.url)
        await port.close()
    assert server.connections == 1
