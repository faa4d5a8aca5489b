"""What the pyreqwest adapter adds to the contract: limits, TLS, and the reading of pyreqwest's causes."""

from __future__ import annotations

import asyncio

import pytest
from pyreqwest.exceptions import (
    ConnectError,
    ConnectTimeoutError,
    PyreqwestError,
    RequestPanicError,
)
from tests.fixtures.raw_http import Peer, RawHttp

from ringonce.channels.http_pyreqwest import PyreqwestHttp, no_reply, parsed_url
from ringonce.channels.port import NotConnected, Unanswered

SENDING = "error sending request for url (http://127.0.0.1/)"


def failure(kind: type[ConnectError | ConnectTimeoutError | RequestPanicError], *causes: str) -> PyreqwestError:
    return kind("failed", {"causes": [{"message": cause} for cause in causes]})


def test_only_the_connect_phase_is_not_connected() -> None:
    """The exception's class says nothing, the chain of causes does."""
    refused = failure(ConnectError, SENDING, "client error (Connect)", "tcp connect error", "Connection refused (111)")
    reset = failure(ConnectError, SENDING, "client error (SendRequest)", "Connection reset by peer (os error 104)")
    silent = failure(ConnectTimeoutError, SENDING, "operation timed out")
    assert repr(no_reply(refused, 3)) == repr(NotConnected("connection refused"))
    assert repr(no_reply(reset, 3)) == repr(Unanswered("connection reset"))
    assert repr(no_reply(silent, 2.5)) == repr(Unanswered("no answer within 2.5 s"))


def test_a_url_cannot_pretend_that_nothing_was_sent() -> None:
    """The first cause repeats the URL: its words are no evidence, neither of the phase nor of the fault."""
    fake = failure(
        ConnectError, "error for url (http://a/?client error (Connect)&dns error)", "client error (SendRequest)"
    )
    assert repr(no_reply(fake)) == repr(Unanswered("call failed"))


@pytest.mark.parametrize(
    "error", [PyreqwestError("odd"), failure(RequestPanicError), RequestPanicError("odd", {"causes": None})]
)
def test_failure_without_causes_is_unanswered(error: PyreqwestError) -> None:
    """What cannot be told is never taken for unsent."""
    assert isinstance(no_reply(error), Unanswered)


def test_host_is_read_as_written() -> None:
    """What is dialled is what whoever checked the URL has seen."""
    assert parsed_url("HTTPS://Example.COM:8443/a?b").host_str == "example.com"
    for disguised in ("http://good.example\\@evil.example/", "http:/\\evil.example/", "http:///evil.example/"):
        with pytest.raises(ValueError, match="URL"):
            parsed_url(disguised)


async def test_both_http_versions_are_offered_over_tls() -> None:
    """ALPN stands in the clear in the client's first message."""
    hello: list[bytes] = []

    async def listens(peer: Peer) -> None:
        hello.append(await peer.bytes())

    port = PyreqwestHttp()
    async with RawHttp(listens) as server:
        with pytest.raises(NotConnected):
            await port.post(server.url.replace("http:", "https:"), {}, b"", 10)
    await port.close()
    assert b"\x02h2\x08http/1.1" in hello[0]


async def test_call_over_the_limit_is_not_connected() -> None:
    """A call that waits for its turn until the deadline has sent nothing."""

    async def hangs(peer: Peer) -> None:
        await peer.request()
        await peer.gone()

    port = PyreqwestHttp(max_calls=1)
    async with RawHttp(hangs) as server:
        first = asyncio.create_task(port.post(server.url, {}, b"", 2))
        await server.until(lambda: len(server.received) == 1)
        with pytest.raises(NotConnected, match="no free connection"):
            await port.post(server.url, {}, b"", 0.1)
        with pytest.raises(Unanswered):
            await first
        assert len(server.received) == 1
    await port.close()
