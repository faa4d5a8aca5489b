"""Where spans go, what comes without the extra, and how tracing ends."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.collector import Collector, collecting

from ringonce.errors import ConfigurationError
from ringonce.observe.tracing import Kind, tracing

if TYPE_CHECKING:
    from collections.abc import Iterator

OFF = """
import sys
import ringonce.bootstrap, ringonce.cli
from ringonce.observe.tracing import tracing
with tracing("off", "router", "node") as spans:
    assert spans is None
sys.exit(", ".join(name for name in sys.modules if name.startswith("opentelemetry")) or None)
"""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that the process is told of."""
    with collecting() as one:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", one.url)
        yield one


def test_off_imports_nothing_of_opentelemetry() -> None:
    """Who has not installed the extra must not need it."""
    done = subprocess.run([sys.executable, "-c", OFF], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "missing", ["opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.sdk.trace"]
)
def test_on_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """At start, as a fault of the configuration."""
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigurationError, match=r"ringonce\[otel\]"), tracing("otlp", "router", "node"):
        pass


def test_the_end_sends_what_is_left(collector: Collector) -> None:
    """A process that stops in order tells of its last deliveries too."""
    with tracing("otlp", "router", "node") as spans:
        assert spans is not None
        spans.begin("one", Kind.INTERNAL, None, {}).end()
    [span] = collector.spans
    assert (span.service, span.name) == ("ringonce-router", "one")


@pytest.mark.parametrize(
    ("name", "value"),
    [("OTEL_SERVICE_NAME", "ours"), ("OTEL_RESOURCE_ATTRIBUTES", "service.name=ours,deployment.environment.name=test")],
)
def test_the_operators_name_for_the_service_wins(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """The standard variables mean here what they mean everywhere."""
    monkeypatch.setenv(name, value)
    with tracing("otlp", "router", "node") as spans:
        assert spans is not None
        spans.begin("one", Kind.INTERNAL, None, {}).end()
    assert [span.service for span in collector.spans] == ["ours"]


def test_a_disabled_sdk_leaves_traceparent_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty header would be worse than none."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with tracing("otlp", "router", "node") as spans:
        assert spans is not None
        assert spans.begin("one", Kind.INTERNAL, None, {}).traceparent is None


def test_a_deaf_collector_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that was told to stop stops, while the exporter's request still waits for its answer."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{deaf.getsockname()[1]}")
        with tracing("otlp", "router", "node", patience=0.05) as spans:
            assert spans is not None
            spans.begin("one", Kind.INTERNAL, None, {}).end()
        connection, _ = deaf.accept()
        with connection, connection.makefile("rb") as request:
            fields = dict(line.lower().split(b":", 1) for line in iter(request.readline, b"\r\n") if b":" in line)
            request.read(int(fields[b"content-length"]))
            connection.setblocking(False)  # noqa: FBT003 - the library's signature
            with pytest.raises(BlockingIOError):  # nothing more came, and nobody has hung up
                connection.recv(1)
            connection.setblocking(True)  # noqa: FBT003 - the same
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    assert "could not be sent in time" in caplog.text
