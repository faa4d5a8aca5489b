"""A mail server that takes everything and keeps nothing but counts: the mock provider of channels that speak SMTP.

A recipient steers its replies: `reply-451@example.org` is refused with 451, `after-554@example.org` once the content
was read, and for `cut@example.org` the connection is cut there. In the clear, without a login: STARTTLS=off.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from ringonce.mock.server import CannotListen

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT: Final = 16 * 1024 * 1024
_STEERED: Final = re.compile(rb"<(?P<when>reply|after)-(?P<code>[45][0-9]{2})@|<(?P<cut>cut)@", re.IGNORECASE)


class MailServer:
    """Serves on one address of this machine, from entering the block to its end; `counts` are by reply."""

    def __init__(self, name: str, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.counts: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        """How often each Message-ID was taken."""
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        """Where mails go."""
        return f"smtp://{self.host}:{self.port}"

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._serve, self.host, self.port, limit=LIMIT)
        except (OSError, OverflowError) as error:
            raise CannotListen(self.name, f"{self.host}:{self.port}", str(error)) from error
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None  # noqa: S101 - entered
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self._converse(reader, self._speaker(writer))
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    def _speaker(self, writer: asyncio.StreamWriter) -> Callable[[str], None]:
        def say(reply: str) -> None:
            self.counts[reply[:3]] += 1
            writer.write(f"{reply}\r\n".encode())

        return say

    async def _converse(self, reader: asyncio.StreamReader, say: Callable[[str], None]) -> None:
        say("220 mock")
        after: bytes | None = None
        while line := await reader.readuntil(b"\n"):
            command = line[:4].upper()
            if command == b"RCPT":
                steered = _STEERED.search(line)
                after = None
                if steered is None:
                    say("250 2.1.5 ok")
                elif steered["when"] is not None and steered["when"].lower() == b"reply":
                    say(f"{steered['code'].decode()} as you wish")
                else:
                    after = steered["code"] or b"cut"
                    say("250 2.1.5 ok")
            elif command == b"DATA":
                say("354 go on")
                content = await reader.readuntil(b"\r\n.\r\n")
                if after == b"cut":
                    return
                if after is None:
                    self._take(content)
                say("250 2.0.0 taken" if after is None else f"{after.decode()} as you wish")
            elif command == b"QUIT":
                say("221 2.0.0 bye")
                return
            else:
                say("250 ok")

    def _take(self, content: bytes) -> None:
        found = re.search(rb"^Message-ID:\s*(<[^>\r\n]*>)", content, re.IGNORECASE | re.MULTILINE)
        self.ids[found[1].decode("ascii", "replace") if found else ""] += 1
