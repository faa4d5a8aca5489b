"""A small HTTP server in threads of its own: it answers while everything else in the process stands still."""

from __future__ import annotations

import logging
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from ringonce.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = logging.getLogger(__name__)

PATIENCE: Final = 5.0
"""Seconds that a client may take for its request, and to read the answer."""
AT_ONCE: Final = 8
"""Requests that are served at a time; whoever comes beyond that is hung up on."""
POLL: Final = 0.5


class Page(NamedTuple):
    """An answer."""

    status: int
    content_type: str
    body: bytes


class PageServer:
    """Serves pages by path; ``with PageServer(…):``.

    Args:
        host: the address to listen on.
        port: the port.
        pages: by path, what makes the page; it runs in a thread of the server's.

    Raises:
        ConfigurationError: on entering, the address cannot be listened on.
    """

    def __init__(self, host: str, port: int, pages: Mapping[str, Callable[[], Page]]) -> None:
        self._address = host, port
        self._pages = pages
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def beat(self) -> float:
        """When the server was last seen to turn (monotonic)."""
        return monotonic() if self._server is None else self._server.beat

    def __enter__(self) -> Self:
        host, port = self._address
        try:
            self._server = _Server(self._address, _handler(self._pages))
        except OSError as error:
            raise ConfigurationError([f"metrics cannot be served on {host}:{port}: {error.strerror}"]) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL,), name="metrics-server", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a client that dawdles must not hold up the end of the process

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.beat = monotonic()
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._free = threading.BoundedSemaphore(AT_ONCE)
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Without the base class's look at the host's name, which may ask a DNS server."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def service_actions(self) -> None:
        """Called whenever the server turns."""
        self.beat = monotonic()

    def process_request(self, request: Any, client_address: Any) -> None:
        """See `ThreadingMixIn`."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """See `ThreadingMixIn`."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        """A client that goes away in the middle is nothing to report; a page that fails has been reported."""


def _handler(pages: Mapping[str, Callable[[], Page]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE

        def do_GET(self) -> None:
            page = self._page()
            self.send_response(page.status)
            self.send_header("Content-Type", page.content_type)
            self.send_header("Content-Length", str(len(page.body)))
            self.end_headers()
            self.wfile.write(page.body)

        def _page(self) -> Page:
            make = pages.get(self.path.partition("?")[0])
            if make is None:
                return Page(404, "text/plain; charset=utf-8", f"there are {', '.join(pages)}\n".encode())
            try:
                return make()
            except Exception:
                log.exception("a page of the metrics server could not be made")
                return Page(500, "text/plain; charset=utf-8", b"this page could not be made; the log says why\n")

        def version_string(self) -> str:
            return "ringonce"

        def log_message(self, *_: object) -> None:
            """Scrapes are no news."""

    return Handler
