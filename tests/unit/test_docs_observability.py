"""`docs/observability.md` says what the code says."""

from __future__ import annotations

import re

from docs import generate_observability as generator

from ringonce.observe.metrics import Metric


def test_the_page_is_what_would_be_generated() -> None:
    """Red means: a metric, an event or an alert has changed; run `make docs`."""
    assert generator.PAGE.read_text(encoding="utf-8") == generator.page()


def test_every_metric_and_every_alert_is_in_the_page() -> None:
    text = generator.page()
    assert [metric.value.name for metric in Metric if f"| `{metric.value.name}` |" not in text] == []
    names = re.findall(r"- alert: (\w+)", generator.RULES.read_text(encoding="utf-8"))
    assert [name for name in names if f"| `{name}` |" not in text] == []
    assert "{{" not in text
