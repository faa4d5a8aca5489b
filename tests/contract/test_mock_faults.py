"""What a mock provider's faults look like to the client that meets them, and what they count as."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING

import pytest

from ringonce.mock.thread import MockProvider

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEADLINE = 10.0


@pytest.fixture
def mock() -> Iterator[MockProvider]:
    with MockProvider("webhook") as provider:
        yield provider


def request(key: str = "k", body: bytes = b"{}") -> bytes:
    return f"POST /send HTTP/1.1\r\nIdempotency-Key: {key}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def dial(mock: MockProvider) -> socket.socket:
    return socket.create_connection(("127.0.0.1", mock.port), timeout=DEADLINE)


def until(condition: Callable[[], bool]) -> None:
    """Poll a condition; fails when it does not come true in time."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.005)


def read_until_reset(connection: socket.socket) -> bytes:
    """What came before the connection was reset; an orderly end is an error."""
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:
        return received
    pytest.fail("the connection ended in an orderly way")


def count(mock: MockProvider, *names: str) -> list[object]:
    stats = mock.stats()
    return [stats[name] for name in names]


def test_a_reset_before_the_body_is_no_act(mock: MockProvider) -> None:
    mock.chaos(RESET="before")
    with dial(mock) as connection:
        connection.sendall(request(body=b"x" * 100)[:-50])
        assert read_until_reset(connection) == b""
    assert count(mock, "requests", "acts", "strays", "hits") == [1, 0, 1, {"RESET": 1}]


def test_a_reset_before_the_body_does_not_look_at_a_body_that_is_there_already(mock: MockProvider) -> None:
    mock.chaos(RESET="before")
    with dial(mock) as connection:
        connection.sendall(request() + request())
        assert read_until_reset(connection) == b""
    assert count(mock, "requests", "acts", "strays") == [1, 0, 1]


def test_a_reset_before_the_body_spares_the_control_paths(mock: MockProvider) -> None:
    mock.chaos(RESET="before")
    with dial(mock) as connection:
        connection.sendall(b"POST /chaos HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK")


def test_a_reset_after_the_body_is_an_act(mock: MockProvider) -> None:
    mock.chaos(RESET="after")
    with dial(mock) as connection:
        connection.sendall(request())
        assert read_until_reset(connection) == b""
    until(lambda: count(mock, "in_flight", "unanswered") == [0, 1])
    assert [(act.key, act.status) for act in mock.acts()] == [("k", None)]


@pytest.mark.parametrize(("knobs", "acts"), [({}, 1), ({"STATUS": 503}, 0)])
def test_a_reset_in_the_middle_counts_as_its_status_line_says(
    mock: MockProvider, knobs: dict[str, object], acts: int
) -> None:
    mock.chaos(RESET="mid", BODY_BYTES=100, **knobs)
    with dial(mock) as connection:
        connection.sendall(request())
        received = read_until_reset(connection)
    assert len(received.partition(b"\r\n\r\n")[2]) == 50
    assert count(mock, "acts", "unanswered") == [acts, 0]


def test_early_hints_come_before_the_answer(mock: MockProvider) -> None:
    """However many there are, the answer is the last one."""
    mock.chaos(EARLY_HINTS=5000, STATUS=422)
    with dial(mock) as connection:
        connection.sendall(request())
        received = b""
        while b"HTTP/1.1 422" not in received:
            received += connection.recv(65_536)
    assert received.count(b"HTTP/1.1 103 Early Hints\r\n") == 5000
    assert received.rpartition(b"HTTP/1.1 ")[2].startswith(b"422 ")
    assert count(mock, "by_status", "hits") == [{"422": 1}, {"STATUS": 1, "EARLY_HINTS": 1}]


def test_a_hang_ends_with_the_client_and_is_an_act(mock: MockProvider) -> None:
    mock.chaos(HANG=True)
    with dial(mock) as connection:
        connection.sendall(request())
        until(lambda: count(mock, "in_flight") == [1])
        assert count(mock, "acts") == [1]
    until(lambda: count(mock, "in_flight", "unanswered") == [0, 1])
    assert count(mock, "acts", "by_status", "hits") == [1, {}, {"HANG": 1}]


def test_a_timeout_that_is_waited_for_is_a_refusal(mock: MockProvider) -> None:
    mock.chaos(FAIL_RATE_TIMEOUT=1, TIMEOUT_HANG_SEC=0.05)
    with dial(mock) as connection:
        connection.sendall(request())
        assert connection.recv(1000).startswith(b"HTTP/1.1 504 ")
    assert count(mock, "acts", "refused") == [0, 1]


def test_a_timeout_that_is_not_waited_for_is_an_act(mock: MockProvider) -> None:
    mock.chaos(FAIL_RATE_TIMEOUT=1, TIMEOUT_HANG_SEC=600)
    with dial(mock) as connection:
        connection.sendall(request())
        until(lambda: count(mock, "in_flight") == [1])
        assert count(mock, "acts") == [0]
    until(lambda: count(mock, "in_flight") == [0])
    assert count(mock, "acts", "refused", "unanswered") == [1, 0, 1]
    assert [act.key for act in mock.acts()] == ["k"]


@pytest.mark.parametrize("part", ["headers", "body"])
def test_a_dribble_comes_in_single_bytes(mock: MockProvider, part: str) -> None:
    mock.chaos(DRIBBLE=part, DRIBBLE_MS=8)
    with dial(mock) as connection:
        connection.sendall(request())
        received = [connection.recv(65536)]
        while not b"".join(received).endswith(b'{"status": 200}'):
            received.append(connection.recv(65536))
    # A reader that comes late finds several bytes at once, but not all of them.
    assert len(received) > 3
    until(lambda: count(mock, "in_flight") == [0])
    assert count(mock, "acts", "by_status") == [1, {"200": 1}]


def test_a_dribbled_refusal_that_is_not_waited_for_is_an_act(mock: MockProvider) -> None:
    mock.chaos(DRIBBLE="headers", STATUS=503)
    with dial(mock) as connection:
        connection.sendall(request())
        assert connection.recv(1) == b"H"
    until(lambda: count(mock, "in_flight") == [0])
    assert count(mock, "acts", "refused") == [1, 0]


def test_a_huge_answer_goes_at_the_readers_pace(mock: MockProvider) -> None:
    mock.chaos(BODY_BYTES=100_000_000)
    with dial(mock) as connection:
        connection.sendall(request())
        assert connection.recv(12) == b"HTTP/1.1 200"
        # Others are served while this one is stuck in its socket's buffers.
        mock.chaos()
        with dial(mock) as other:
            other.sendall(request("other"))
            assert other.recv(12) == b"HTTP/1.1 200"
        assert count(mock, "in_flight") == [1]
        received, buffer = 12, bytearray(1 << 20)
        while received < 100_000_000:
            received += connection.recv_into(buffer)
    until(lambda: count(mock, "in_flight") == [0])


def test_half_a_close_does_not_cut_an_answer_that_has_begun(mock: MockProvider) -> None:
    mock.chaos(BODY_BYTES=20_000_000)
    with dial(mock) as connection:
        connection.sendall(request())
        received = len(connection.recv(1))
        connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(1 << 20):
            received += len(piece)
    assert received > 20_000_000


def test_a_bomb_is_sent_unasked(mock: MockProvider) -> None:
    mock.chaos(GZIP_BOMB=True, BODY_BYTES=1_000_000)
    with dial(mock) as connection:
        connection.sendall(request())
        assert b"\r\nContent-Encoding: gzip\r\n" in connection.recv(65536)


def test_who_honours_keys_acts_once_and_says_so(mock: MockProvider) -> None:
    mock.chaos(DEDUP=True)
    with dial(mock) as connection:
        for _ in range(3):
            connection.sendall(request())
            assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
    assert count(mock, "requests", "acts", "replayed", "duplicates") == [3, 1, 2, 0]


def test_a_steered_answer_has_its_own_shape(mock: MockProvider) -> None:
    mock.chaos(BODY_BYTES=9, DRIBBLE="headers", DRIBBLE_MS=60_000)
    wish = json.dumps({"payloadJson": json.dumps({"mock": {"status": 410, "latency_ms": 1}})}).encode()
    with dial(mock) as connection:
        connection.sendall(request(body=wish))
        assert connection.recv(1000).endswith(b'\r\n\r\n{"status": 410}')


def test_a_message_steers_its_first_answers(mock: MockProvider) -> None:
    wish = json.dumps({"payloadJson": json.dumps({"mock": {"status": 429, "retry_after": 60, "times": 2}})}).encode()
    with dial(mock) as connection:
        answers = []
        for _ in range(3):
            connection.sendall(request(body=wish))
            answers.append(connection.recv(1000))
    assert [answer[9:12] for answer in answers] == [b"429", b"429", b"200"]
    assert b"\r\nRetry-After: 60\r\n" in answers[0]
    assert count(mock, "acts", "refused", "duplicates") == [1, 2, 0]
