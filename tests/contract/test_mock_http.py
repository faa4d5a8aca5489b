"""HTTP/1.1 as the mock providers speak it, seen from a bare socket."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import re
import socket
from typing import TYPE_CHECKING

import pytest

from ringonce.mock.faults import Faults
from ringonce.mock.thread import MockProvider

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "s3cret"  # noqa: S105 - of these tests
DEADLINE = 10.0


@pytest.fixture
def mock() -> Iterator[MockProvider]:
    with MockProvider("firebase") as provider:
        yield provider


def dial(mock: MockProvider) -> socket.socket:
    return socket.create_connection(("127.0.0.1", mock.port), timeout=DEADLINE)


def post(body: bytes, key: str = "k", path: str = "/send", *extra: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: mock", f"Idempotency-Key: {key}", f"Content-Length: {len(body)}", *extra]
    return "\r\n".join([*lines, "", ""]).encode() + body


def steered(status: int) -> bytes:
    return json.dumps({"payloadJson": json.dumps({"mock": {"status": status}})}).encode()


def talk(mock: MockProvider, *pieces: bytes) -> bytes:
    """Send the pieces one by one and read to the end of the connection."""
    with dial(mock) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def statuses(answers: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answers)]


def ask(mock: MockProvider, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", mock.port, timeout=DEADLINE)
    connection.request(method, path, body)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


def test_a_connection_serves_one_request_after_the_other(mock: MockProvider) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", mock.port, timeout=DEADLINE)
    for number in range(3):
        connection.request("POST", "/send", b"{}", {"Idempotency-Key": str(number)})
        opened = connection.sock
        assert connection.getresponse().read() == b'{"status": 200}'
        assert connection.sock is opened
    connection.close()
    assert [act.key for act in mock.acts()] == ["0", "1", "2"]


@pytest.mark.parametrize("knobs", [{}, {"BODY_BYTES": 1}, {"LATENCY_MS": 0.01}], ids=["plain", "scripted", "waiting"])
def test_pipelined_requests_are_answered_in_their_order(mock: MockProvider, knobs: dict[str, object]) -> None:
    mock.chaos(**knobs)
    wanted = [(200, 410, 429)[number % 3] for number in range(1500)]
    requests = [post(steered(status) if status != 200 else b"{}", str(index)) for index, status in enumerate(wanted)]
    assert statuses(talk(mock, b"".join(requests), post(b"", "last", "/send", "Connection: close"))) == [*wanted, 200]
    assert mock.stats()["max_in_flight"] == 1


def test_a_slow_answer_holds_back_those_behind_it(mock: MockProvider) -> None:
    slow = json.dumps({"payloadJson": json.dumps({"mock": {"status": 503, "latency_ms": 100}})}).encode()
    answers = talk(mock, post(slow) + post(b"") + b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert statuses(answers) == [503, 200, 200]


def test_any_number_may_wait_behind_a_slow_answer(mock: MockProvider) -> None:
    mock.chaos(BODY_BYTES=1)
    slow = json.dumps({"payloadJson": json.dumps({"mock": {"status": 200, "latency_ms": 100}})}).encode()
    requests = [post(slow), *(post(b"", str(index)) for index in range(1000))]
    answers = talk(mock, b"".join(requests), post(b"", "last", "/send", "Connection: close"))
    assert statuses(answers) == [200] * 1002


def test_a_request_may_come_byte_by_byte(mock: MockProvider) -> None:
    request = b"GET /health?a=1 HTTP/1.1\r\n\r\n" + post(b"body", "key-1", "/a/path", "Connection: close")
    assert statuses(talk(mock, *(bytes((byte,)) for byte in request))) == [200, 200]
    assert [(act.key, act.hash) for act in mock.acts()] == [("key-1", hashlib.sha256(b"body").hexdigest()[:16])]


def test_a_chunked_body_is_put_together(mock: MockProvider) -> None:
    top = b"POST /send HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    assert statuses(talk(mock, top + b"2\r\nbo\r\n", b"2\r\ndy\r\n0\r\n\r\n")) == [200]
    assert mock.acts()[0].hash == hashlib.sha256(b"body").hexdigest()[:16]


def test_who_asks_for_the_end_gets_it(mock: MockProvider) -> None:
    assert b"Connection: close" in talk(mock, post(b"", "k", "/send", "Connection: close"))
    assert b"Connection: close" in talk(mock, b"POST /send HTTP/1.0\r\nContent-Length: 0\r\n\r\n")


def test_what_is_no_http_is_answered_400_behind_what_is(mock: MockProvider) -> None:
    mock.chaos(LATENCY_MS=20)
    assert statuses(talk(mock, post(b"{}") + b"\x16\x03\x01 what\r\n\r\n")) == [200, 400]
    assert mock.stats()["hits"] == {"LATENCY_MS": 1, "MALFORMED": 1}


def test_an_upgrade_is_refused(mock: MockProvider) -> None:
    assert statuses(talk(mock, post(b"", "k", "/send", "Connection: Upgrade", "Upgrade: h2c"))) == [400]
    assert mock.stats()["acts"] == 0


def test_a_request_that_is_too_large_is_refused(mock: MockProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ringonce.mock.protocol.REQUEST_LIMIT", 1000)
    assert statuses(talk(mock, post(b"x" * 900, "k", "/send", "Connection: close"))) == [200]
    assert statuses(talk(mock, post(b"x" * 1000, "k", "/send", "Connection: close"))) == [413]
    assert mock.stats()["acts"] == 1


def test_who_asks_before_sending_the_body_is_told_to_go_on(mock: MockProvider) -> None:
    with dial(mock) as connection:
        connection.sendall(b"POST /send HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"body")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/send"), ("GET", "/chaos"), ("POST", "/stats"), ("DELETE", "/acts"), ("HEAD", "/send")],
)
def test_the_wrong_method_is_answered_405(mock: MockProvider, method: str, path: str) -> None:
    status, body = ask(mock, method, path)
    assert status == 405
    assert bool(body) == (method != "HEAD")
    assert mock.stats()["acts"] == 0


def test_a_followed_redirect_shows(mock: MockProvider) -> None:
    mock.chaos(STATUS=302)
    assert b"Location: /elsewhere\r\n" in talk(mock, post(b"", "k", "/send", "Connection: close"))
    assert mock.stats()["strays"] == 0
    ask(mock, "GET", "/elsewhere")
    assert (mock.stats()["strays"], mock.stats()["hits"]) == (1, {"STATUS": 1, "METHOD": 1})


def test_signatures_are_verified_when_the_secret_is_known() -> None:
    body = json.dumps({"title": "Grüße \N{BELL}"}).encode()
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    with MockProvider("apns", secret=SECRET) as mock:
        for sent, signed in ((body, signature), (body + b" ", signature), (body, ""), (body, "ü")):
            talk(mock, post(sent, "k", "/send", f"x-signature: {signed}", "Connection: close"))
        stats = mock.stats()
    assert (stats["acts"], stats["bad_signatures"], stats["by_status"]) == (1, 3, {"200": 1, "401": 3})


def test_health_and_stats_are_json(mock: MockProvider) -> None:
    assert json.loads(ask(mock, "GET", "/health")[1]) == {"name": "firebase", "status": "ok"}
    assert json.loads(ask(mock, "GET", "/stats")[1]) == json.loads(json.dumps(mock.stats()))


def test_acts_are_json_lines_from_a_number_on(mock: MockProvider) -> None:
    for key in "abc":
        ask(mock, "POST", f"/{key}")
    talk(mock, post(b"", "d", "/send", "Connection: close"))
    status, lines = ask(mock, "GET", "/acts?since=2")
    assert status == 200
    acts = [json.loads(line) for line in lines.splitlines()]
    assert [(act["number"], act["key"], act["status"]) for act in acts] == [(3, "", 200), (4, "d", 200)]
    assert set(acts[0]) >= {"key", "hash", "t", "status"}
    assert ask(mock, "GET", "/acts?since=4") == (200, b"")
    assert ask(mock, "GET", "/acts?since=-1")[0] == 400


def test_chaos_turns_knobs_while_running(mock: MockProvider) -> None:
    assert ask(mock, "POST", "/chaos", '{"FAIL_RATE_503": 1, "RETRY_AFTER": "9"}')[0] == 200
    assert b"\r\nRetry-After: 9\r\n" in talk(mock, post(b"", "k", "/send", "Connection: close"))
    ask(mock, "POST", "/chaos", '{"LATENCY_MS": 1}')
    assert mock.stats()["faults"] == Faults(fail_rate_503=1, retry_after="9", latency_ms=1).as_knobs()
    ask(mock, "POST", "/chaos", '{"reset": true, "STATUS": 429}')
    assert mock.stats()["faults"] == Faults(status=429).as_knobs()
    ask(mock, "POST", "/chaos", "{}")
    assert mock.stats()["faults"] == Faults().as_knobs()


def test_chaos_names_what_is_wrong_and_changes_nothing(mock: MockProvider) -> None:
    status, body = ask(mock, "POST", "/chaos", '{"HANG": true, "FAIL_RATE": 1, "STATUS": "x"}')
    assert status == 400
    assert [fault.partition(":")[0] for fault in json.loads(body)["faults"]] == ["FAIL_RATE", "STATUS"]
    for nonsense in ("[1]", "{", '"HANG"', '{"reset": 1}', "[" * 100_000):
        assert ask(mock, "POST", "/chaos", nonsense)[0] == 400
    assert mock.stats()["faults"] == Faults().as_knobs()


def test_reset_forgets_deliveries_and_keeps_knobs(mock: MockProvider) -> None:
    mock.chaos(STATUS=201)
    talk(mock, post(b"", "k", "/send", "Connection: close"))
    assert ask(mock, "POST", "/reset")[0] == 200
    assert mock.acts() == []
    stats = mock.stats()
    assert (stats["requests"], stats["faults"]) == (0, Faults(status=201).as_knobs())
