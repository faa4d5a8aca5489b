"""A TCP proxy that breaks connections on purpose, in front of Kafka, PostgreSQL or a provider.

It works in a thread of its own, so that plain and asynchronous code can use it alike, and counts what its faults did:
a run in which a fault touched nothing has proven nothing.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Final, Self

from tests.chaos.link import Hits, Link, Mode, Order

from ringonce.stand.ports import LOOPBACK, free_port

__all__ = ["Hits", "Mode", "Proxy"]

PATIENCE: Final = 30.0
"""Seconds after which a proxy that does not react is given up as broken."""

PIECE: Final = 65_536
"""Bytes read at once."""


class Proxy:
    """``with Proxy("127.0.0.1", 5432) as proxy:`` serves at `proxy.port` until the end of the block.

    The methods that switch its mode may be called from any thread; they return when the mode is in force, for the
    connections that are there and for those that come. One mode at a time: each replaces the one before.

    Args:
        upstream_host: where connections go on to, by IPv4.
        upstream_port: likewise.
        port: on loopback; 0 takes a free one, the same over the whole life of the proxy.
    """

    def __init__(self, upstream_host: str, upstream_port: int, port: int = 0) -> None:
        self.port = port or free_port()
        self._upstream = (upstream_host, upstream_port)
        self._order = Order(Mode.PASS)
        self._hits = dict.fromkeys(Mode, Hits())
        self._links: set[Link] = set()
        self._accepting: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._switched: asyncio.Event

    # From any thread

    def __enter__(self) -> Self:
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._main(started)), name=f"proxy-{self.port}", daemon=True
        )
        self._thread.start()
        started.result(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)

    @property
    def address(self) -> str:
        """Where it listens, as ``host:port``."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def mode(self) -> Mode:
        """What it does now."""
        return self._order.mode

    def hits(self, mode: Mode) -> Hits:
        """What a mode has done so far. Of connections that were refused nobody here hears: they are never counted."""
        return self._hits[mode]

    def heal(self) -> None:
        """Pass everything again. What was deaf goes on where it stood; what has lost replies is reset."""
        self._give(Order(Mode.PASS))

    def delay(self, seconds: float) -> None:
        """Let every piece wait, in both directions; what arrives meanwhile is the next piece."""
        self._give(Order(Mode.DELAY, seconds))

    def deaf(self) -> None:
        """Keep connections open and accept more, but neither read nor write: a black hole."""
        self._give(Order(Mode.DEAF))

    def reset(self) -> None:
        """End all connections, and each that comes, with an RST."""
        self._give(Order(Mode.RESET))

    def refuse(self) -> None:
        """Listen no longer; connections that are there go on."""
        self._give(Order(Mode.REFUSE))

    def drop_replies(self, linger: float | None = None) -> None:
        """Forward what clients say and swallow what they are answered.

        A connection that has lost a reply is reset `linger` seconds later; where that is None, at the next switch.
        """
        self._give(Order(Mode.DROP_REPLIES, linger))

    def lose_reply_to(self, marker: bytes, linger: float | None = 0.0) -> None:
        """The same, only for what is answered once a client has said `marker`; the rest passes.

        With a server that answers when it is done, the client cannot know that it was done.
        """
        self._give(Order(Mode.DROP_REPLIES, linger, marker))

    def _give(self, order: Order) -> None:
        asyncio.run_coroutine_threadsafe(self._switch(order), self._loop).result(PATIENCE)

    # In the proxy's thread

    async def _main(self, started: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop, self._switched = asyncio.Event(), asyncio.Event()
        try:
            self._listen()
        except OSError as error:
            started.set_exception(error)
            return
        started.set_result(None)
        await self._stop.wait()
        await self._deafen()
        await self._cut(self._links)

    async def _switch(self, order: Order) -> None:
        self._order = order
        for link in self._links:
            link.obey(order)
        self._switched.set()
        self._switched = asyncio.Event()
        await self._cut({link for link in self._links if link.holed or order.mode is Mode.RESET})
        if order.mode is Mode.REFUSE:
            await self._deafen()
        elif self._accepting is None:
            self._listen()

    def _listen(self) -> None:
        # SO_REUSEADDR comes with it: connections from before may still be dying.
        listener = socket.create_server((LOOPBACK, self.port), backlog=1024)
        listener.settimeout(0)
        self._accepting = self._loop.create_task(self._accept(listener))

    async def _deafen(self) -> None:
        accepting, self._accepting = self._accepting, None
        if accepting is not None:
            accepting.cancel()
            await asyncio.wait({accepting})

    async def _cut(self, links: set[Link]) -> None:
        """Reset connections; returns when it is done."""
        tasks = {link.task for link in links}
        for link in links:
            if self._order.mode is Mode.RESET:
                self._count(Mode.RESET, link)
            link.task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _accept(self, listener: socket.socket) -> None:
        with listener:
            while True:
                client, _ = await self._loop.sock_accept(listener)
                client.settimeout(0)
                link = Link(client)
                link.obey(self._order)
                if self._order.mode is Mode.RESET:
                    self._count(Mode.RESET, link)
                    link.close(reset=True)
                    continue
                self._links.add(link)
                link.task = self._loop.create_task(self._serve(link))

    async def _serve(self, link: Link) -> None:
        reset = True
        try:
            await self._hearing(link)
            await self._loop.sock_connect(link.upstream, self._upstream)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(link, link.client, link.upstream))
                pumps.create_task(self._pump(link, link.upstream, link.client))
            reset = False
        except* OSError:  # one end is gone; the other hears of it as if there were nothing in between
            pass
        finally:
            self._links.discard(link)
            link.close(reset=reset)

    async def _pump(self, link: Link, source: socket.socket, sink: socket.socket) -> None:
        while data := await self._read(link, source):
            if source is link.client:
                if self._order.marker:
                    link.hear(data, self._order.marker)
            elif link.marked or link.holed:
                self._lose(link, data)
                continue
            self._count(Mode.PASS, link, data)
            await self._loop.sock_sendall(sink, data)
        with suppress(OSError):  # the peer may have gone already
            sink.shutdown(socket.SHUT_WR)

    async def _read(self, link: Link, source: socket.socket) -> bytes:
        """The next piece, once the mode lets it through; empty at the end of the stream."""
        await self._hearing(link)
        data = await self._loop.sock_recv(source, PIECE)
        while True:
            await self._hearing(link, data)
            order = self._order
            if order.mode is not Mode.DELAY or not data:
                return data
            self._count(Mode.DELAY, link, data)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._switched.wait(), order.seconds)
            if order is self._order:
                return data

    async def _hearing(self, link: Link, data: bytes = b"") -> None:
        """Returns when the proxy is not deaf."""
        while self._order.mode is Mode.DEAF:
            self._count(Mode.DEAF, link, data)
            await self._switched.wait()

    def _lose(self, link: Link, data: bytes) -> None:
        self._count(Mode.DROP_REPLIES, link, data)
        if not link.holed and self._order.seconds is not None:
            self._loop.call_later(self._order.seconds, link.task.cancel)
        link.holed = True

    def _count(self, mode: Mode, link: Link, data: bytes = b"") -> None:
        before = self._hits[mode]
        first = mode not in link.touched
        link.touched.add(mode)
        self._hits[mode] = Hits(before.connections + first, before.pieces + bool(data), before.bytes + len(data))
