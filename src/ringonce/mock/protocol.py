"""HTTP/1.1 on the bare socket: parsing by httptools, answers in order, faults down to a TCP reset.

One request of a connection is answered at a time; what is pipelined behind it waits, so answers keep the order of the
requests whatever a plan does. An answer without faults is written at once, every other one is a script that is played.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, cast

import httptools

from ringonce.mock.control import PATHS, Page, control, path_of
from ringonce.mock.decision import DELIVERED, Answer, Delivery
from ringonce.mock.faults import Reset
from ringonce.mock.player import Piece, Player
from ringonce.mock.script import head, plain, script, shaped

if TYPE_CHECKING:
    from ringonce.mock.provider import Provider

REQUEST_LIMIT = 16 * 1024 * 1024
"""Bytes of one request, headers and body: far above any notification."""

WAITING_LIMIT = 64
"""Pipelined requests kept per connection; with more, reading pauses."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Request(NamedTuple):
    """A request read to its end, or the answer to what is none."""

    method: bytes
    target: bytes
    delivery: Delivery
    keep: bool
    wrong: Page | None = None


class Connection(asyncio.Protocol):
    """One connection, from accept to loss. The `on_` methods are httptools' callbacks."""

    def __init__(self, provider: Provider, connections: set[Connection]) -> None:
        self._provider = provider
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._player: Player
        self._waiting: deque[Request] = deque()
        self._taking = False
        self._deaf = False  # nothing that still comes in matters
        self._target = b""
        self._key = b""
        self._signature = b""
        self._expects = False
        self._body: list[bytes] = []
        self._size = 0

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join the server's connections."""
        # A cast: uvloop's transports are no subclass.
        self._transport = cast("asyncio.Transport", transport)
        self._player = Player(asyncio.get_running_loop(), self._transport, self._answered)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Parse; the callbacks do the rest."""
        if self._deaf:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(400, "MALFORMED", "only HTTP/1.1 is spoken here")
        except httptools.HttpParserCallbackError as error:
            # A callback of ours failed: that is a fault of the mock and must not pass for one of the client.
            raise error.__context__ or error from None
        except httptools.HttpParserError:
            self._refuse(400, "MALFORMED", "this is not HTTP/1.1")

    def eof_received(self) -> bool:
        """The other side sends no more.

        Who waits for an answer does not usually close its half, so a close before the answer began means that it gave
        up; only so is a hang noticed to be over. An answer that has begun is finished.
        """
        self._deaf = True
        self._player.close_after()
        return self._player.heard

    def pause_writing(self) -> None:
        """The other side reads slowly."""
        self._player.hold()

    def resume_writing(self) -> None:
        """It caught up."""
        self._player.resume()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why it was lost changes nothing
        """Whatever was under way is over, answered or not."""
        self._deaf = True
        self._waiting.clear()
        self._player.lost(dedup=self._provider.faults.dedup)
        self._connections.discard(self)

    def abort(self) -> None:
        """Drop the connection now."""
        self._transport.abort()

    # The parser's side.

    def on_message_begin(self) -> None:
        """Forget the request before."""
        self._target = self._key = self._signature = b""
        self._expects = False
        self._body = []
        self._size = 0

    def on_url(self, url: bytes) -> None:
        """The target may come in pieces."""
        self._size += len(url)
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep the few that mean something here."""
        self._size += len(name) + len(value)
        name = name.lower()
        if name == b"idempotency-key":
            self._key = value
        elif name == b"x-signature":
            self._signature = value
        elif name == b"expect":
            self._expects = value.lower() == b"100-continue"

    def on_headers_complete(self) -> None:
        """The last chance to do something before the body is read."""
        if self._deaf:
            return
        if self._provider.faults.reset is Reset.BEFORE and self._is_delivery(self._parser.get_method(), self._target):
            self._deaf = True
            self._provider.memory.strayed("RESET")
            self._player.sever()
        elif self._expects and not self._player.busy:
            self._transport.write(CONTINUE)

    def on_body(self, body: bytes) -> None:
        """The body may come in pieces."""
        self._size += len(body)
        if self._size > REQUEST_LIMIT:
            self._refuse(413, "TOO_LARGE", f"at most {REQUEST_LIMIT} bytes")
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """Answer it, or let it wait for its turn."""
        if self._deaf or self._parser.should_upgrade():
            return
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        delivery = Delivery(self._key, self._signature, body)
        request = Request(self._parser.get_method(), self._target, delivery, self._parser.should_keep_alive())
        if not self._player.busy:
            self._handle(request)
            return
        self._waiting.append(request)
        if len(self._waiting) == WAITING_LIMIT:
            self._transport.pause_reading()

    # Our own.

    @staticmethod
    def _is_delivery(method: bytes, target: bytes) -> bool:
        return method == b"POST" and (target == b"/send" or path_of(target) not in PATHS)

    def _refuse(self, status: int, hit: str, reason: str) -> None:
        """Answer what is no request, in its turn, and close after it."""
        if self._deaf:
            return
        self._deaf = True
        self._provider.memory.strayed(hit)
        wrong = Page(status, json.dumps({"error": reason}).encode())
        self._waiting.append(Request(b"", b"", Delivery(b"", b"", b""), keep=False, wrong=wrong))
        self._take_waiting()

    def _answered(self, keep: bool) -> None:  # noqa: FBT001 - the player's callback has one argument
        if keep:
            self._take_waiting()
        else:
            self._close()

    def _take_waiting(self) -> None:
        if self._taking:
            # Called by the end of an answer that the loop below has begun: it goes on by itself, and without recursion,
            # since any number of requests may wait.
            return
        self._taking = True
        while self._waiting and not self._player.busy and not self._transport.is_closing():
            if len(self._waiting) == WAITING_LIMIT:
                self._transport.resume_reading()
            self._handle(self._waiting.popleft())
        self._taking = False

    def _handle(self, request: Request) -> None:
        if request.wrong is not None:
            self._show(request, request.wrong)
        elif self._is_delivery(request.method, request.target):
            self._deliver(request)
        else:
            if path_of(request.target) not in PATHS:
                self._provider.memory.strayed("METHOD")
            page = control(self._provider, request.method.decode("latin-1"), request.target, request.delivery.body)
            self._show(request, page)

    def _show(self, request: Request, page: Page) -> None:
        top = head(Answer(page.status), len(page.body), keep=request.keep, media=page.media)
        self._transport.write(top if request.method == b"HEAD" else top + page.body)
        if not request.keep:
            self._close()

    def _deliver(self, request: Request) -> None:
        memory = self._provider.memory
        call, decision = self._provider.deliver(request.delivery)
        plan, status = decision.plan, 0
        if isinstance(plan, Answer):
            status = plan.status
            if decision is DELIVERED or not (plan.wait or plan.cut or shaped(decision.shape)):
                self._transport.write(plain(plan, keep=request.keep))
                memory.answered(call, status)
                memory.left(call)
                if not request.keep:
                    self._close()
                return
        steps = script(plan, decision.shape, keep=request.keep)
        self._player.play(Piece(steps, status, call, memory, request.keep))

    def _close(self) -> None:
        self._deaf = True
        self._waiting.clear()
        self._transport.close()
