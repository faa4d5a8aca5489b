"""What is on the spans around publishes and calls, and which `traceparent` goes on from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.fakes.http import ScriptedHttp, answer
from tests.fakes.samples import FIREBASE, TARGET, WEBHOOK, notification, relay

from ringonce.channels.http import HttpCarrier
from ringonce.channels.registry import CATALOGUE, ChannelRow
from ringonce.domain.outcome import Delivered, Refused
from ringonce.kafka.headers import read
from ringonce.observe.tracing import Tracing
from ringonce.traced import TracedCarrier, publishing

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from ringonce.channels.port import Prepared
    from ringonce.domain.notification import Notification
    from ringonce.domain.outcome import Outcome

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
PLACE = ("provider.example", 8091)


class Told(NamedTuple):
    """Tracing, and what it told."""

    tracing: Tracing
    exporter: InMemorySpanExporter

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """In the order of their ends."""
        return self.exporter.get_finished_spans()


@pytest.fixture
def told() -> Told:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Told(Tracing(provider), exporter)


def header(span: ReadableSpan) -> str:
    """The span as a sampled traceparent says it, but for its flags."""
    assert span.context is not None
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}"


def test_a_readable_traceparent_passes_unchanged(told: Told) -> None:
    """Bytes in are bytes out."""
    given = [("x", b"1"), ("traceparent", TRACEPARENT.encode()), ("y", None)]
    headers, fate = publishing(told.tracing)("topic", given)
    fate(None)
    assert headers == given
    [span] = told.spans
    assert span.parent is not None
    assert f"{span.parent.trace_id:032x}" == TRACE


@pytest.mark.parametrize(
    "unreadable", [b"", b"garbage", b"\xff", None, f"00-{'0' * 32}-00f067aa0ba902b7-01".encode(), b"ff" + b"-1" * 9]
)
def test_an_unreadable_traceparent_counts_as_none(told: Told, unreadable: bytes | None) -> None:
    """Left there it would leave each span of the notification in a trace of its own."""
    headers, fate = publishing(told.tracing)("topic", [("traceparent", unreadable), ("x", b"1")])
    fate("PublishUncertain")
    [span] = told.spans
    assert span.parent is None
    assert [name for name, _ in headers] == ["x", "traceparent"]
    assert (read(headers, 0.0).traceparent or "").startswith(header(span))
    assert dict(span.attributes or {})["error.type"] == "PublishUncertain"


async def test_the_provider_gets_the_calls_own_span(told: Told) -> None:
    """One for each try, under the record's."""
    http = ScriptedHttp(answer(503), answer(200))
    carrier = HttpCarrier(relay(), http, FIREBASE.protocol, lambda: 0.0)
    call = TracedCarrier(carrier, told.tracing, FIREBASE, PLACE).prepare(notification(), "key", TRACEPARENT, b"")
    assert (await call(1.0), await call(1.0)) == (Refused(503), Delivered(200))
    assert [one.headers["traceparent"][:52] for one in http.calls] == [header(span) for span in told.spans]
    for span, (status, error) in zip(told.spans, ((503, "Refused"), (200, None)), strict=True):
        assert span.parent is not None
        assert f"{span.parent.trace_id:032x}" == TRACE
        attributes = dict(span.attributes or {})
        assert attributes.pop("error.type", None) == error
        assert attributes == {
            "ringonce.channel": "firebase",
            "ringonce.notification.id": "n-1",
            "http.request.method": "POST",
            "http.response.status_code": status,
            "server.address": "provider.example",
            "server.port": 8091,
        }


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("", PLACE),
        ("https://partner.example/secret-path?token=canary", ("partner.example", 443)),
        ("http://[2001:db8::1]:8080/", ("2001:db8::1", 8080)),
    ],
)
async def test_a_webhooks_span_names_its_own_host_and_no_more(told: Told, target: str, place: tuple[str, int]) -> None:
    """What comes after the host may be a secret."""
    builder = relay(WEBHOOK, allowed=("partner.example:443", "[2001:db8::1]:8080"))
    carrier = HttpCarrier(builder, ScriptedHttp(), WEBHOOK.protocol, lambda: 0.0)
    traced = TracedCarrier(carrier, told.tracing, WEBHOOK, PLACE)
    await traced.prepare(notification(target=target), "key", None, b"")(1.0)
    attributes = dict(told.spans[0].attributes or {})
    assert (attributes["server.address"], attributes["server.port"]) == place
    assert "canary" not in repr(attributes)
    assert TARGET not in repr(attributes)


class Post:
    """Implements `Carrier`: a mail server that takes everything."""

    def destination(self, _: Notification) -> str:
        """See `Carrier.destination`."""
        return "email"

    def prepare(self, *_: object) -> Prepared:
        """See `Carrier.prepare`."""

        async def send(_: float) -> Outcome:
            return Delivered(250)

        return send

    async def close(self) -> None:
        """See `Carrier.close`."""


async def test_a_mail_servers_reply_is_no_http_status(told: Told) -> None:
    """Whoever reads `http.*` would take a refused mail for a failed request."""
    row: ChannelRow = CATALOGUE["email"]
    traced = TracedCarrier(Post(), told.tracing, row, ("mail.example", 587))
    await traced.prepare(notification(), "key", TRACEPARENT, b"")(1.0)
    attributes = dict(told.spans[0].attributes or {})
    assert attributes["ringonce.smtp.reply_code"] == 250
    assert not [name for name in attributes if name.startswith("http.")]
