"""TCP ports on the loopback interface."""

from __future__ import annotations

import contextlib
import secrets
import socket
from typing import TYPE_CHECKING

from ringonce.stand.errors import StandError

if TYPE_CHECKING:
    from collections.abc import Collection

LOOPBACK = "127.0.0.1"

# Below the range from which Linux takes the local ends of outgoing connections. A port within it would be lost while
# its server is down: to any outgoing connection, even to a client's own attempts to reconnect to it.
_FIRST, _COUNT = 20_000, 12_000
_TRIES = 100


def is_free(port: int) -> bool:
    """Whether a server could listen on the loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def free_port(but: Collection[int] = ()) -> int:
    """A port that nobody listens on, and that no outgoing connection will take while its server restarts.

    `but` are ports that are promised to servers which do not listen yet.
    """
    for _ in range(_TRIES):
        port = _FIRST + secrets.randbelow(_COUNT)
        if port not in but and is_free(port):
            return port
    raise StandError(f"no free TCP port found between {_FIRST} and {_FIRST + _COUNT}")


def require_free(port: int, server: str, option: str = "") -> None:
    """Raises StandError when `server` cannot listen on `port`; `option` is what chooses another port."""
    if not is_free(port):
        other = f", or choose another port with `ringonce stand {option} PORT up`" if option else ""
        raise StandError(f"{server}: port {port} is taken by a program that this stand did not start; stop it{other}")


def answers(host: str, port: int, timeout: float = 2.0) -> bool:
    """Whether somebody accepts connections there."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout):
        return True
    return False
