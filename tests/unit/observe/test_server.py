"""The pages on the metrics port."""

from __future__ import annotations

import http.client
import json
import socket
import time
from typing import TYPE_CHECKING

import pytest

from ringonce.errors import ConfigurationError
from ringonce.observe.health import STILL, Health
from ringonce.observe.server import AT_ONCE, Page, PageServer
from ringonce.stand.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HOST = "127.0.0.1"


def served(pages: Mapping[str, Callable[[], Page]], *paths: str) -> list[tuple[int, bytes]]:
    """What the server answers for each path."""
    port = free_port()
    with PageServer(HOST, port, pages):
        return [get(port, path) for path in paths]


def get(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    connection.request("GET", path)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def fine() -> Page:
    return Page(200, "text/plain", b"fine")


def broken() -> Page:
    raise ValueError("secret")


def test_pages_are_found_by_path(caplog: pytest.LogCaptureFixture) -> None:
    """A query is ignored, what there is not is 404, and a page that fails says nothing of why to who asks."""
    answers = served({"/fine": fine, "/broken": broken}, "/fine?x=1", "/other", "/broken")
    assert [status for status, _ in answers] == [200, 404, 500]
    assert answers[0][1] == b"fine"
    assert b"secret" not in answers[2][1]
    assert "could not be made" in caplog.text


def test_a_port_that_is_taken_is_said_in_one_line() -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(ConfigurationError, match=f"metrics cannot be served on {HOST}:{port}"),
            PageServer(HOST, port, {}),
        ):
            pass


def test_clients_that_say_nothing_do_not_keep_the_others_out_for_ever() -> None:
    """Whoever comes beyond what is served at a time is hung up on at once; the server goes on turning."""
    port = free_port()
    with PageServer(HOST, port, {"/": fine}) as server:
        silent = [socket.create_connection((HOST, port)) for _ in range(AT_ONCE)]
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            get(port, "/")
        before = server.beat
        deadline = time.monotonic() + 5
        while server.beat <= before and time.monotonic() < deadline:
            pass
        assert server.beat > before
        for one in silent:
            one.close()


def body(page: Page) -> dict[str, object]:
    found: dict[str, object] = json.loads(page.body)
    return found


def test_alive_is_who_makes_progress() -> None:
    """Half of what the watchdog waits for: a supervisor's look comes before the end."""
    now = time.monotonic()
    health = Health({"the event loop": lambda: now, "fetching": lambda: now - STILL - 1}, {})
    page = health.alive()
    assert page.status == 503
    parts = body(page)["parts"]
    assert isinstance(parts, dict)
    assert parts["the event loop"] == "ok"
    assert parts["fetching"].startswith("no progress for 3")
    assert Health({"x": lambda: now}, {"kafka": lambda: "away"}).alive().status == 200


def test_ready_is_who_has_what_it_needs() -> None:
    """A breaker that is open is reported and is no reason to take the process out."""
    now = time.monotonic()
    told = {"breakers": lambda: {"open": 1}}
    ready = Health({"x": lambda: now}, {"kafka": str, "database": str}, told).ready()
    assert (ready.status, body(ready)) == (
        200,
        {"status": "ok", "parts": {"kafka": "ok", "database": "ok"}, "breakers": {"open": 1}},
    )
    away = Health({"x": lambda: now}, {"kafka": lambda: "it does not answer"}).ready()
    assert (away.status, body(away)["parts"]) == (503, {"kafka": "it does not answer"})
    assert Health({"x": lambda: now - STILL}, {}).ready().status == 503
