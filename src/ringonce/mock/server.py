"""A mock provider served in a running event loop."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Self

from ringonce.errors import InternalError, RingonceError, ServerUnreachable
from ringonce.mock.protocol import Connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.mock.provider import Provider

BACKLOG = 1024


class CannotListen(RingonceError):  # noqa: N818 - reads as what happened, like the others in its tree
    """The provider's address cannot be had: taken, not ours, or not allowed."""

    exit_code = ServerUnreachable.exit_code

    def __init__(self, name: str, address: str, reason: str) -> None:
        self.name, self.address, self.reason = name, address, reason
        super().__init__(f"mock provider {name} cannot listen on {address}: {reason}")


class MockServer:
    """Serves a provider on one address of this machine, from `start` to `stop`; may be started again.

    What the provider remembers and how it misbehaves outlives a stop. Several servers can share a loop.
    """

    def __init__(self, provider: Provider, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.provider = provider
        self.host = host
        self.port = port
        """0 until the first start means any free one; then the one it got, also for the next start"""
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()

    @property
    def url(self) -> str:
        """Where deliveries go, without a path."""
        return f"http://{self.host}:{self.port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen.

        Raises:
            CannotListen: the address cannot be had.
        """
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: Connection(self.provider, self._connections), self.host, self.port, backlog=BACKLOG
            )
        except (OSError, OverflowError) as error:
            reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
            raise CannotListen(self.provider.name, f"{self.host}:{self.port}", reason) from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and drop every connection; what was being answered stays unanswered."""
        if self._server is None:
            return
        self._server.close()
        while self._connections:
            # In rounds: one accepted just before the close may join only now.
            for connection in list(self._connections):
                connection.abort()
            await asyncio.sleep(0)
        await self._server.wait_closed()
        self._server = None


async def serve(server: MockServer, stop: asyncio.Event, ready: Callable[[], None]) -> None:
    """Serve until `stop` is set, in a loop of its own.

    Args:
        server: not started.
        stop: set by anyone in this loop.
        ready: called once it listens.

    Raises:
        CannotListen: the address cannot be had.
        InternalError: a callback failed. A mock that is wrong about itself must not go on: its counts are evidence.
    """
    failures: list[dict[str, Any]] = []

    def failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(context.get("exception"), OSError):
            loop.default_exception_handler(context)
            return
        failures.append(context)
        stop.set()

    asyncio.get_running_loop().set_exception_handler(failed)
    async with server:
        ready()
        await stop.wait()
    if failures:
        cause = failures[0].get("exception")
        raise InternalError(f"mock provider {server.provider.name}: {failures[0]['message']}: {cause!r}") from cause
