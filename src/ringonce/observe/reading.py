"""What metrics pages say at a moment, put together: the other direction of `exposition`."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from ringonce.observe.metrics import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ringonce.observe.metrics import Metric

_OURS: Final = "ringonce_"


class Unreadable(ValueError):  # noqa: N818 - what the page is
    """The page is not in Prometheus' text format."""


class Value(NamedTuple):
    """One line of a page."""

    name: str
    labels: Mapping[str, str]
    value: float


def read_page(text: str) -> list[Value]:
    """Our metrics on a page; what else is on it is left out.

    Raises:
        Unreadable: it is no page of metrics.
    """
    try:
        return [
            Value(sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name.startswith(_OURS)
        ]
    except (ValueError, KeyError, IndexError) as error:
        raise Unreadable("not a page of metrics") from error


class Reading:
    """All pages of a moment. `at` in seconds on a monotonic clock."""

    def __init__(self, at: float, pages: Iterable[Sequence[Value]]) -> None:
        self.at = at
        self._values: dict[str, list[Value]] = defaultdict(list)
        for page in pages:
            for value in page:
                self._values[value.name].append(value)

    def labels(self, metric: Metric, *names: str) -> set[tuple[str, ...]]:
        """The combinations of these labels that the metric has."""
        suffix = "_count" if metric.value.kind is Kind.HISTOGRAM else ""
        found = self._values.get(metric.value.name + suffix, ())
        return {tuple(value.labels.get(name, "") for name in names) for value in found}

    def values(self, metric: Metric, **labels: str) -> list[float]:
        """The values that have these labels, over all pages."""
        return [one.value for one in self._values.get(metric.value.name, ()) if labels.items() <= one.labels.items()]

    def sum(self, metric: Metric, **labels: str) -> float | None:
        """Their sum; None where there are none."""
        found = self.values(metric, **labels)
        return sum(found) if found else None

    def most(self, metric: Metric, **labels: str) -> float | None:
        """The largest; None where there are none."""
        return max(self.values(metric, **labels), default=None)

    def buckets(self, metric: Metric, **labels: str) -> dict[float, float]:
        """A histogram's cumulative counts by upper bound, over all pages."""
        found: dict[float, float] = defaultdict(float)
        for one in self._values.get(f"{metric.value.name}_bucket", ()):
            if labels.items() <= one.labels.items():
                found[float(one.labels["le"])] += one.value
        return dict(sorted(found.items()))


def quantile(share: float, before: Mapping[float, float], after: Mapping[float, float]) -> float | None:
    """Where `share` (0 to 1) of what was observed between two readings of a histogram's buckets lies at or below.

    Within a bucket it is taken to be spread evenly, as Prometheus' `histogram_quantile` does; beyond the last bound
    nothing is known, and the bound is the answer. None where nothing was observed, or a process began anew.
    """
    bounds = list(after)
    counts = [after[bound] - before.get(bound, 0.0) for bound in bounds]
    if not counts or counts[-1] <= 0 or any(below > above for below, above in pairwise(counts)):
        return None
    rank = share * counts[-1]
    at = bisect_left(counts, rank)
    if at >= len(bounds) - 1:
        return bounds[-2] if len(bounds) > 1 else None
    low, under = (bounds[at - 1], counts[at - 1]) if at else (0.0, 0.0)
    return low + (bounds[at] - low) * (rank - under) / (counts[at] - under) if counts[at] > under else bounds[at]
