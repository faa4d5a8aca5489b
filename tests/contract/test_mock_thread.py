"""Mock providers inside another program: in threads of their own, and in its event loop."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from ringonce.errors import ConfigurationError, InternalError
from ringonce.mock.faults import Faults
from ringonce.mock.provider import Provider
from ringonce.mock.server import CannotListen, MockServer
from ringonce.mock.thread import MockProvider

if TYPE_CHECKING:
    from ringonce.mock.decision import Decision

DEADLINE = 10.0


def send(mock: MockProvider, *keys: str) -> list[int]:
    connection = http.client.HTTPConnection("127.0.0.1", mock.port, timeout=DEADLINE)
    statuses = []
    for key in keys:
        connection.request("POST", "/send", b"{}", {"Idempotency-Key": key})
        answer = connection.getresponse()
        answer.read()
        statuses.append(answer.status)
    connection.close()
    return statuses


def test_several_providers_are_strangers_to_each_other() -> None:
    with MockProvider("firebase") as firebase, MockProvider("apns", faults=Faults(status=503)) as apns:
        assert (send(firebase, "a"), send(apns, "b")) == ([200], [503])
        assert firebase.url == f"http://127.0.0.1:{firebase.port}" != apns.url
        assert [act.key for act in firebase.acts()] == ["a"]
        assert [(call.key, call.kind) for call in apns.calls()] == [("b", "refusal")]


def test_the_same_seed_is_the_same_luck() -> None:
    def run(seed: int) -> list[int]:
        with MockProvider("firebase", faults=Faults(fail_rate_503=0.5), seed=seed) as mock:
            return send(mock, *map(str, range(40)))

    assert run(1) == run(1) != run(2)


def test_a_provider_may_be_gone_for_a_while() -> None:
    mock = MockProvider("firebase")
    mock.start()
    port = mock.port
    send(mock, "a")
    mock.stop()
    mock.stop()
    with pytest.raises(ConnectionRefusedError):
        send(mock, "b")
    assert [act.key for act in mock.acts()] == ["a"]
    mock.chaos(STATUS=503)
    with mock:
        assert mock.port == port
        assert send(mock, "c") == [503]
    assert mock.stats()["requests"] == 2


def test_the_end_drops_who_is_still_waiting() -> None:
    before = threading.active_count()
    with MockProvider("firebase", faults=Faults(hang=True)) as mock:
        hanging = socket.create_connection(("127.0.0.1", mock.port), timeout=DEADLINE)
        idle = socket.create_connection(("127.0.0.1", mock.port), timeout=DEADLINE)
        hanging.sendall(b"POST /send HTTP/1.1\r\nContent-Length: 0\r\n\r\nGET /health HTTP/1.1\r\n\r\n")
        # Answered by the same thread after the request above was read, so it hangs by now or is in the socket.
        assert mock.stats()["name"] == "firebase"
    for connection in (hanging, idle):
        with connection:
            try:
                assert connection.recv(100) == b""
            except ConnectionResetError:
                continue
    assert mock.stats()["in_flight"] == 0
    assert threading.active_count() == before


def test_knobs_may_be_turned_from_any_thread_while_it_serves() -> None:
    with MockProvider("firebase") as mock:
        senders = [threading.Thread(target=send, args=(mock, *(f"{n}-{i}" for i in range(100)))) for n in range(4)]
        for sender in senders:
            sender.start()
        for number in range(50):
            mock.chaos(FAIL_RATE_503=number / 50)
            mock.acts()
        for sender in senders:
            sender.join(DEADLINE)
        stats = mock.stats()
        assert stats["requests"] == 400
        assert stats["acts"] == len(mock.acts())
        with pytest.raises(ConfigurationError, match="HANGS"):
            mock.chaos(HANGS=True)
        assert mock.chaos(reset=True, STATUS=429) == Faults(status=429)
        mock.forget()
        assert mock.stats()["requests"] == 0


def test_an_address_that_is_taken_is_said_so() -> None:
    with MockProvider("firebase") as first, pytest.raises(CannotListen) as caught:
        MockProvider("apns", port=first.port).start()
    assert str(caught.value) == (f"mock provider apns cannot listen on 127.0.0.1:{first.port}: Address already in use")
    assert caught.value.exit_code == 4


def test_a_failure_of_the_mock_itself_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Decision:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("ringonce.mock.provider.decide", broken)
    mock = MockProvider("firebase")
    mock.start()
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        send(mock, "a")
    with pytest.raises(InternalError, match="planted"):
        mock.stop()


async def test_a_provider_can_live_in_the_loop_of_its_test() -> None:
    firebase, apns = Provider("firebase"), Provider("apns", faults=Faults(status=429))
    async with MockServer(firebase) as one, MockServer(apns) as two:
        for server in (one, two):
            reader, writer = await asyncio.open_connection(server.host, server.port)
            writer.write(b"POST /send HTTP/1.1\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            writer.close()
            await writer.wait_closed()
        left_open = await asyncio.open_connection(one.host, one.port)
    assert (firebase.stats()["acts"], apns.stats()["refused"]) == (1, 1)
    left_open[1].close()


async def test_a_reset_works_on_the_stock_loop_too() -> None:
    async with MockServer(Provider("firebase", faults=Faults().changed({"RESET": "after"}))) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(b"POST /send HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
