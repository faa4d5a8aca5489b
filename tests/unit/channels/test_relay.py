"""The relay's calls: what is signed, where they go, and where they must not."""

from __future__ import annotations

import hashlib
import hmac
import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.samples import FIREBASE, SECRET, TARGET, WEBHOOK, notification, relay

from ringonce.channels.port import BadTarget
from ringonce.channels.registry import CHANNELS
from ringonce.channels.relay import BodyFormat, Relay, host_port
from ringonce.domain.notification import Notification

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("body", list(BodyFormat))
def test_the_signature_is_over_the_exact_bytes_that_are_sent(body: BodyFormat) -> None:
    """Hex HMAC-SHA256 with the channel's secret."""
    sent = notification(title="Grüße 😀\0", payload_json='{"a": 1}')
    request = relay(body=body).request(sent, "key", None, b"the payload's own bytes")
    expected = b"the payload's own bytes" if body is BodyFormat.PROTOBUF else orjson.dumps(sent.json_fields())
    assert request.body == expected
    assert request.headers["x-signature"] == hmac.new(SECRET, request.body, hashlib.sha256).hexdigest()


def test_headers_of_a_call() -> None:
    """Nothing else, and nothing twice."""
    request = relay().request(notification(trace_id="t-1"), "the-key", TRACE, b"")
    assert request.url == TARGET
    assert request.headers == {
        "content-type": "application/json",
        "x-channel": "firebase",
        "idempotency-key": "the-key",
        "x-signature": request.headers["x-signature"],
        "x-trace-id": "t-1",
        "traceparent": TRACE,
    }
    assert relay(body=BodyFormat.PROTOBUF).request(notification(), "k", None, b"").headers["content-type"] == (
        "application/protobuf"
    )


@pytest.mark.parametrize("trace_id", ["", "a b", "a\r\nx-injected: 1", "ä", "\0", "x" * 257, "a\n"])
def test_a_trace_id_that_cannot_stand_in_a_header_stays_in_the_body(trace_id: str) -> None:
    """The message is sent all the same."""
    request = relay().request(notification(trace_id=trace_id), "k", None, b"")
    assert "x-trace-id" not in request.headers
    assert json.loads(request.body).get("traceId", "") == trace_id


@given(st.text(max_size=300))
def test_no_trace_id_makes_a_bad_header(trace_id: str) -> None:
    """Visible ASCII of at most 256 characters, or none."""
    value = relay().request(notification(trace_id=trace_id), "k", None, b"").headers.get("x-trace-id", "x")
    assert all("!" <= character <= "~" for character in value)
    assert 0 < len(value) <= 256


def test_single_destination_ignores_the_notifications_target() -> None:
    """For firebase and apns the target is the device's token, for the relay to read in the body."""
    token = notification(target="http://127.0.0.1:1/token")
    assert relay().destination(token) == "firebase"
    assert relay().request(token, "k", None, b"").url == TARGET


def test_webhook_posts_to_an_allowed_target_and_without_one_to_its_own() -> None:
    """One destination per host and port."""
    own = relay(WEBHOOK, allowed=("Partner.example:443",))
    hook = notification(target="https://partner.EXAMPLE/in?x=1")
    assert own.destination(hook) == "partner.example:443"
    assert own.request(hook, "k", None, b"").url == hook.target
    assert own.destination(notification()) == "provider.example:8091"
    assert own.request(notification(), "k", None, b"").url == TARGET
    assert own.destination(notification(target="http://provider.example:8091/other")) == "provider.example:8091"


@pytest.mark.parametrize(
    "target",
    [
        "http://elsewhere.example/",
        "http://partner.example/",  # port 80 is not the one on the list
        "https://partner.example:444/",
        "https://partner.example.:443/",
        "https://xpartner.example/",
        "https://partner.example.evil.example/",
        "https://127.0.0.1/",
        "https://0177.0.0.1/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://127.1/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://169.254.169.254/latest/meta-data/",
        "https://%70artner.example/",
        "https://partner.example:0/",
    ],
)
def test_webhook_refuses_what_is_not_on_the_list(target: str) -> None:
    """However it is written. The reason does not quote the target."""
    with pytest.raises(BadTarget) as caught:
        relay(WEBHOOK, allowed=("partner.example:443",)).destination(notification(target=target))
    assert "example" not in str(caught.value)
    assert "127" not in str(caught.value)


@pytest.mark.parametrize(
    "target",
    [
        "partner.example",
        "partner.example:443",
        "//partner.example/",
        "/relative",
        "ftp://partner.example/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http:partner.example",
        "http:///partner.example/",
        "https://",
        "https://:443/",
        "https://user@partner.example/",
        "https://user:password@partner.example/",
        "https://partner.example@evil.example/",
        "https://@partner.example/",
        "https://partner.example:443\\@evil.example/",
        "https://partner.example:port/",
        "https://partner.example:-1/",
        "https://partner.example:65536/",
        "https://partner.example:99999999999/",
        "https://[::1/",
        "https://[partner.example]/",
        "https://partner.example/\r\nx: y",
        "https://partner.example/ x",
        " https://partner.example/",
        "https://partner.example/\t",
        "https://pärtner.example/",
        "https://\uff11\uff12\uff17.0.0.1/",
        "https://partner.example/\0",
        "https://partner.example/" + "x" * 2048,
        "😀",
    ],
)
def test_what_is_no_target(target: str) -> None:
    """Not an absolute http or https URL in visible ASCII without user and of reasonable length."""
    with pytest.raises(BadTarget, match=r"^the target is not "):
        host_port(target)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a.example", "a.example:80"),
        ("HTTPS://A.Example/x", "a.example:443"),
        ("http://a.example:/", "a.example:80"),
        ("http://a.example:080/", "a.example:80"),
        ("http://[2001:DB8::1]:8080/", "[2001:db8::1]:8080"),
        ("http://a.example:65535?q#f", "a.example:65535"),
    ],
)
def test_host_and_port_of_a_url(url: str, expected: str) -> None:
    """Lower-case, with the scheme's port where none is given."""
    assert host_port(url) == expected


@given(st.text(max_size=40) | st.text(max_size=20).map(lambda rest: f"https://{rest}"))
def test_any_text_is_a_host_and_port_or_a_bad_target(text: str) -> None:
    """Nothing a message brings is an error of ours."""
    try:
        host, _, port = host_port(text).rpartition(":")
    except BadTarget:
        return
    assert host
    assert 0 <= int(port) <= 65_535


def test_an_own_target_that_is_no_url_is_refused_at_once() -> None:
    """At start, not at the first message."""
    with pytest.raises(BadTarget):
        Relay(FIREBASE, "provider", b"s", BodyFormat.JSON)


def test_channels_are_three_and_named_as_in_topics() -> None:
    """A literal table."""
    assert list(CHANNELS) == ["firebase", "apns", "webhook"]
    assert {row.channel.wire_name for row in CHANNELS.values()} == {f"CHANNEL_{name.upper()}" for name in CHANNELS}


def test_body_is_the_canonical_json_by_default() -> None:
    """As the wire contract's reader expects it."""
    assert json.loads(relay().request(Notification("n", channel=1), "k", None, b"").body) == {
        "id": "n",
        "channel": "CHANNEL_FIREBASE",
    }
