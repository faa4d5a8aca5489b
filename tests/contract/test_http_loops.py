"""The HTTP adapters on both event loops: the answer comes from a thread of pyreqwest's and must wake the right one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import uvloop
from tests.fixtures.raw_http import Peer, RawHttp, answer

from ringonce.channels.http_httpx import HttpxHttp
from ringonce.channels.http_pyreqwest import PyreqwestHttp
from ringonce.channels.port import HttpPort, NotConnected, Unanswered

if TYPE_CHECKING:
    from collections.abc import Callable

GUARD = 30.0  # seconds; far beyond what the scenario takes


async def scenario(build: Callable[[], HttpPort]) -> None:
    """Answered, unanswered, cancelled and refused calls, many at once."""
    port = build()

    async def hangs(peer: Peer) -> None:
        await peer.request()
        await peer.gone()

    async def post(server: RawHttp, deadline: float = GUARD) -> int:
        return (await port.post(server.url, {"x-a": "b"}, b"body", deadline)).status

    async with asyncio.timeout(GUARD), RawHttp(answer("200 OK", b"ok")) as good, RawHttp(hangs) as bad:
        assert await asyncio.gather(*(post(good) for _ in range(64))) == [200] * 64
        with pytest.raises(Unanswered):
            await post(bad, deadline=0.2)
        waiting = asyncio.create_task(post(bad, deadline=1.0))
        await bad.until(lambda: len(bad.received) == 2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await post(good) == 200
        await bad.until(lambda: bad.open == 0)
    with pytest.raises(NotConnected):
        await post(bad)
    await port.close()


@pytest.mark.parametrize("build", [PyreqwestHttp, HttpxHttp])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_both_event_loops_serve(loop: Callable[[], asyncio.AbstractEventLoop], build: Callable[[], HttpPort]) -> None:
    """One loop after the other in one process, as tests and tools do."""
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario(build))
