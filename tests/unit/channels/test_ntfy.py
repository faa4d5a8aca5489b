"""What is posted to an ntfy server, and what never is."""

from __future__ import annotations

import json
import re
from email.header import decode_header, make_header
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.http import ScriptedHttp, answer
from tests.fakes.samples import notification

from ringonce.channels.http import HttpCarrier
from ringonce.channels.ntfy import Ntfy
from ringonce.channels.port import BadTarget, NotConnected, Unanswered, Unsendable
from ringonce.channels.registry import CATALOGUE
from ringonce.domain.notification import Channel, Notification, Priority
from ringonce.domain.outcome import Delivered, Indeterminate, NotSent, Outcome, Refused, Rejected, Throttled

if TYPE_CHECKING:
    from ringonce.channels.http import Request

ROW = CATALOGUE["ntfy"]
TOKEN = "tk_1"  # noqa: S105 - it opens nothing


def ntfy(token: str = TOKEN, topic: str = "") -> Ntfy:
    """The channel, for a server with a path."""
    return Ntfy(ROW, "https://ntfy.example/base/", token, topic)


def request(**fields: Any) -> Request:
    """What would be posted for a notification."""
    fields = {"target": "alerts", **fields}
    return ntfy().request(notification(channel=Channel.NTFY, **fields), "key", None, b"")


def test_a_call_with_everything() -> None:
    """The text is the body, all else are headers; the token is ours."""
    extras = {"tags": ["warning", "skull"], "click": "https://example.org/orders/7", "other": 1}
    made = request(title="Title", body="Grüße", priority=Priority.HIGH, payload_json=json.dumps(extras))
    assert made.url == "https://ntfy.example/base/alerts"
    assert made.body == "Grüße".encode()
    assert made.headers == {
        "content-type": "text/plain; charset=utf-8",
        "authorization": "Bearer tk_1",
        "title": "Title",
        "priority": "high",
        "tags": "warning,skull",
        "click": "https://example.org/orders/7",
    }


def test_a_call_with_nothing() -> None:
    """No header without a value; no token where there is none."""
    made = ntfy(token="", topic="all").request(Notification("a", channel=Channel.NTFY), "key", None, b"")
    assert (made.url, made.body) == ("https://ntfy.example/base/all", b"")
    assert made.headers == {"content-type": "text/plain; charset=utf-8"}


def test_tags_may_be_one_text() -> None:
    """Separated by commas."""
    assert request(payload_json='{"tags": "a, b"}').headers["tags"] == "a,b"


@pytest.mark.parametrize("payload", ["", "[]", "null", "3", "{", '{"tags": null}', '{"click": ""}', "[" * 100_000])
def test_a_payload_that_says_nothing_to_us_is_left_alone(payload: str) -> None:
    """It may be meant for somebody else."""
    assert {"tags", "click"} & set(request(payload_json=payload).headers) == set()


@pytest.mark.parametrize(
    "extras",
    [
        {"tags": 3},
        {"tags": [1]},
        {"tags": ["a\r\nx: 1"]},
        {"tags": ["a"] * 17},
        {"tags": ["a,b"]},
        {"tags": [""]},
        {"click": 3},
        {"click": "nowhere"},
        {"click": "https://a b"},
        {"click": "https://a\r\nx: 1"},
    ],
    ids=str,
)
def test_bad_tags_and_clicks_are_never_sent(extras: dict[str, Any]) -> None:
    """With a reason that does not repeat them."""
    with pytest.raises(Unsendable, match=r"^(the payload's|one of the payload's) "):
        request(payload_json=json.dumps(extras))


@pytest.mark.parametrize("target", ["a b", "../admin", "a/b", "ä", "x" * 65, "a?b", "a\n"])
def test_a_target_that_is_no_topic_is_refused(target: str) -> None:
    """It would be another path."""
    with pytest.raises(BadTarget, match="no topic"):
        ntfy().destination(notification(target=target))


def test_without_a_target_there_has_to_be_a_topic() -> None:
    """Of the channel's."""
    with pytest.raises(BadTarget, match="names no topic"):
        ntfy().destination(notification())
    assert ntfy(topic="all").destination(notification()) == "ntfy"


@given(st.text(max_size=400))
def test_no_title_ends_its_line(title: str) -> None:
    """Printable ASCII, which reads as the title did but for line breaks and its length."""
    value = request(title=title).headers.get("title", "x")
    assert re.fullmatch(r"[ -~]+", value)
    if value.startswith("=?UTF-8?B?"):
        assert "\n" not in str(make_header(decode_header(value)))


@pytest.mark.parametrize("title", ["Grüße 😀", "=?UTF-8?B?aGk=?=", "plain"])
def test_a_title_is_read_as_it_was_written(title: str) -> None:
    """RFC 2047 where it is not plain."""
    value = request(title=title).headers["title"]
    assert str(make_header(decode_header(value))) == title


@pytest.mark.parametrize("url", ["nowhere", "ftp://x", "https://x/?a=1", "https://x/#f"])
def test_a_server_that_is_none_is_a_fault(url: str) -> None:
    """At start."""
    with pytest.raises(BadTarget):
        Ntfy(ROW, url)


def test_a_token_that_cannot_stand_in_a_header_is_a_fault() -> None:
    """At start."""
    with pytest.raises(ValueError, match="token"):
        Ntfy(ROW, "https://x", "a\nb")


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (answer(200), Delivered(200)),
        (answer(429, "7"), Throttled(429, 7.0)),
        (answer(503), Refused(503)),
        (answer(401), Refused(401)),
        (answer(403), Refused(403)),
        (answer(404), Rejected("rejected with status 404", 404)),
        (answer(409), Rejected("rejected with status 409", 409)),
        (answer(413), Rejected("rejected with status 413", 413)),
        (NotConnected("refused"), NotSent("refused")),
        (Unanswered("reset"), Indeterminate("reset")),
        (ValueError("bad"), Rejected("the request cannot be sent: its URL or a header is invalid")),
    ],
    ids=str,
)
async def test_what_an_answer_means(said: Any, outcome: Outcome) -> None:
    """Without a key a conflict is none; credentials of ours are no message's fault."""
    carrier = HttpCarrier(ntfy(), ScriptedHttp(said), ROW.protocol, lambda: 0.0)
    call = carrier.prepare(notification(target="alerts"), "key", None, b"")
    assert await call(1.0) == outcome
