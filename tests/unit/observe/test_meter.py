"""What a process counts, and the page that a scrape gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ringonce.domain.disposition import Reason
from ringonce.domain.outcome import Delivered, Indeterminate, Refused
from ringonce.observe import events
from ringonce.observe.exposition import Exposition
from ringonce.observe.meter import Meter
from ringonce.observe.metrics import Histogram, Kind, Metric, Sample

if TYPE_CHECKING:
    from ringonce.observe.metrics import Source


def scraped(*sources: Source) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every value on the page, as Prometheus' own parser reads it."""
    page = Exposition(sources).page().decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def test_every_metric_is_described_as_its_kind_demands() -> None:
    """Prometheus' naming rules: counters end in _total, times say their unit, and only histograms have buckets."""
    names = [metric.value.name for metric in Metric]
    assert len(set(names)) == len(names)
    for metric in Metric:
        what = metric.value
        assert what.name.startswith("ringonce_")
        assert what.name.endswith("_total") is (what.kind is Kind.COUNTER)
        assert bool(what.buckets) is (what.kind is Kind.HISTOGRAM)
        assert list(what.buckets) == sorted(set(what.buckets))
        assert what.sentence.endswith(".")


def test_labels_are_closed_sets() -> None:
    """A label with a value from outside would let anybody fill the monitoring system."""
    allowed = {
        *("channel", "stage", "seen_from", "status", "outcome", "status_class", "reason", "state", "before", "after"),
        *("operation", "kind", "part", "server", "role", "node", "version"),
    }
    assert {label for metric in Metric for label in metric.value.labels} <= allowed


def test_a_histogram_counts_by_upper_bound() -> None:
    """A value on a bound belongs below it, as Prometheus has it; a clock that is behind makes nothing negative."""
    histogram = Histogram((1.0, 10.0))
    for value in (-5.0, 1.0, 1.5, 11.0):
        histogram.observe(value)
    assert histogram.cumulative() == [("1.0", 2.0), ("10.0", 3.0), ("+Inf", 4.0)]
    assert histogram.total == 13.5
    batch = Histogram((1.0, 10.0))
    batch.observe_all([-5.0, 1.0, 1.5, 11.0])
    assert (batch.counts, batch.total) == (histogram.counts, histogram.total)


def test_what_was_counted_is_on_the_page() -> None:
    meter = Meter("firebase")
    meter.attempted(Delivered(200), 0.02)
    meter.attempted(Refused(503), 0.02)
    meter.attempted(Refused(502), 0.02)
    meter.attempted(Indeterminate("x"), 3.0)
    meter.ended(["delivered", "delivered"], ["delivered"])
    meter.since_created.observe(70.0)
    meter.asked("record", 0.004, ok=True)
    meter.asked("record", 0.004, ok=False)
    found = scraped(meter.samples)
    attempts = {"channel": "firebase", "outcome": "Refused", "status_class": "5xx"}
    assert found[key("ringonce_attempts_total", **attempts)] == 2
    unanswered = {"channel": "firebase", "outcome": "Indeterminate", "status_class": "none"}
    assert found[key("ringonce_attempts_total", **unanswered)] == 1
    assert found[key("ringonce_attempt_seconds_count", channel="firebase")] == 4
    assert found[key("ringonce_terminal_rows_total", channel="firebase", status="delivered")] == 2
    assert found[key("ringonce_replayed_rows_total", channel="firebase", status="delivered")] == 1
    created = "ringonce_delivery_since_created_seconds_bucket"
    assert found[key(created, channel="firebase", le="60.0")] == 0
    assert found[key(created, channel="firebase", le="120.0")] == 1
    assert found[key("ringonce_database_failures_total", channel="firebase", operation="record")] == 1


def test_events_are_counted_beside_being_emitted() -> None:
    """Whoever listened before still hears everything."""
    heard: list[events.Event] = []
    meter = Meter("webhook")
    emit = meter.beside(heard.append)
    told: list[events.Event] = [
        events.Forwarded("n-1", "", "retry-30s", Reason.NEXT_RETRY),
        events.Recorded(7, 0.1),
        events.PartitionsAssigned(("t[0]",)),
        events.PartitionsLost(("t[0]",)),
        events.BreakerChanged("a.example:443", "closed", "open", "refused with status 503"),
        events.BreakerChanged("b.example:443", "closed", "open", "refused with status 503"),
        events.BreakerChanged("b.example:443", "open", "half-open", ""),
        events.BreakerChanged("a.example:443", "open", "half-open", ""),
        events.BreakerChanged("a.example:443", "half-open", "closed", "probe succeeded"),
    ]
    for event in told:
        emit(event)
    assert heard == told
    assert meter.breakers() == {"half-open": 1}
    found = scraped(meter.samples)
    assert found[key("ringonce_forwards_total", channel="webhook", stage="retry-30s", reason="next-retry")] == 1
    assert found[key("ringonce_batch_rows_sum", channel="webhook")] == 7
    assert found[key("ringonce_rebalances_total", channel="webhook", kind="lost")] == 1
    opened = {"channel": "webhook", "before": "closed", "after": "open"}
    assert found[key("ringonce_breaker_changes_total", **opened)] == 2
    assert not any("example" in str(labels) for _, labels in found)


def test_the_process_itself_is_on_the_page() -> None:
    """Memory, processor time and open files, as the operating system tells them."""
    names = {name for name, _ in scraped()}
    assert {"process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"} <= names


def test_a_number_in_place_of_a_histogram_is_a_mistake_in_the_code() -> None:
    with pytest.raises(AssertionError):
        scraped(lambda: [Sample(Metric.BATCH_ROWS, ("x",), 1.0)])
