"""Samples in Prometheus' text format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from ringonce.observe.metrics import Histogram, Kind, Metric, Sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prometheus_client.core import Metric as Family

    from ringonce.observe.metrics import Source

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Exposition:
    """Renders what the sources say, and what the operating system says of the process."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Samples(sources))
        ProcessCollector(registry=self._registry)

    def page(self) -> bytes:
        """The page for a scrape."""
        return generate_latest(self._registry)


class _Samples(Collector):
    """Asked anew for each scrape: nothing is kept up to date for nobody."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources

    def collect(self) -> Iterable[Family]:
        """See `Collector`."""
        by_metric: dict[Metric, list[Sample]] = {}
        for source in self._sources:
            for sample in source():
                by_metric.setdefault(sample.metric, []).append(sample)
        return families(by_metric)


def families(by_metric: dict[Metric, list[Sample]]) -> Iterator[Family]:
    """The metrics that have samples, as the library wants them."""
    for metric in Metric:
        samples = by_metric.get(metric)
        if not samples:
            continue
        what = metric.value
        match what.kind:
            case Kind.COUNTER:
                counter = CounterMetricFamily(what.name, what.sentence, labels=what.labels)
                for sample in samples:
                    counter.add_metric(sample.labels, _number(sample))
                yield counter
            case Kind.GAUGE:
                gauge = GaugeMetricFamily(what.name, what.sentence, labels=what.labels)
                for sample in samples:
                    gauge.add_metric(sample.labels, _number(sample))
                yield gauge
            case Kind.HISTOGRAM:
                histogram = HistogramMetricFamily(what.name, what.sentence, labels=what.labels)
                for sample in samples:
                    found = sample.value
                    assert isinstance(found, Histogram)  # noqa: S101 - as the metric is described
                    histogram.add_metric(sample.labels, found.cumulative(), found.total)
                yield histogram


def _number(sample: Sample) -> float:
    assert not isinstance(sample.value, Histogram)  # noqa: S101 - as the metric is described
    return float(sample.value)
