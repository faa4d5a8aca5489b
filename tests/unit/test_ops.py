"""The alert rules and the dashboard speak of metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from tests.fixtures.servers import NO_MEANS, require

from ringonce.channels.registry import CHANNELS
from ringonce.observe.metrics import ROUTER, Kind, Metric

OPS: Final = Path(__file__).parents[2] / "ops"
RULES: Final = OPS / "prometheus" / "ringonce.rules.yml"
RULE_TESTS: Final = OPS / "prometheus" / "ringonce.rules.test.yml"
DASHBOARD: Final = OPS / "grafana" / "ringonce.json"

ADDED: Final = {"instance", "job", "le", "channel"}
"""Labels that Prometheus or a recording rule adds."""


def known() -> dict[str, set[str]]:
    """The labels of every series that there can be, by its name."""
    found = {}
    for metric in Metric:
        what = metric.value
        endings = ("_bucket", "_sum", "_count") if what.kind is Kind.HISTOGRAM else ("",)
        found.update({what.name + ending: set(what.labels) for ending in endings})
    return found


def unknown(text: str) -> list[str]:
    """Every name and label of ours in PromQL that is nowhere described."""
    series = known()
    names = set(re.findall(r"\bringonce_\w+", text))
    found = sorted(names - set(series))
    for name, selector in re.findall(r"\b(ringonce_\w+)\{([^}]*)\}", text):
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))
        found += sorted(f"{name}: {label}" for label in labels - series.get(name, set()) - ADDED)
    return found


def expressions(model: Any) -> list[str]:
    """Every query of a dashboard."""
    if isinstance(model, dict):
        own = [value for key, value in model.items() if key in {"expr", "query"} and isinstance(value, str)]
        return own + [found for value in model.values() for found in expressions(value)]
    if isinstance(model, list):
        return [found for value in model for found in expressions(value)]
    return []


def alerts() -> list[str]:
    return re.findall(r"- alert: (\w+)", RULES.read_text())


def promtool(*arguments: str) -> None:
    """Run it; its words are the failure's."""
    require(
        NO_MEANS, lambda: "" if shutil.which("promtool") else "there is no `promtool` (Debian's package prometheus)"
    )
    done = subprocess.run(
        ["promtool", *arguments],  # noqa: S607 - wherever the package has put it
        cwd=RULES.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_speak_of_metrics_that_there_are() -> None:
    """Red means: a metric was renamed, and an alert would have gone quiet for ever."""
    assert unknown(RULES.read_text()) == []
    assert unknown(RULE_TESTS.read_text()) == []


def test_the_dashboard_speaks_of_metrics_that_there_are() -> None:
    model = json.loads(DASHBOARD.read_text())
    found = expressions(model)
    assert len(found) > 20
    assert [wrong for expression in found for wrong in unknown(expression)] == []
    ids = [panel["id"] for panel in model["panels"]]
    assert len(set(ids)) == len(ids)


def test_every_metric_is_on_the_dashboard() -> None:
    """What nobody looks at need not be counted; who a process is stands in legends."""
    text = "\n".join(expressions(json.loads(DASHBOARD.read_text())))
    assert [metric.name for metric in Metric if metric.value.name not in text] == []


def test_every_channel_has_a_useful_window() -> None:
    """A new channel without one would never raise the alert about its age."""
    windows = set(
        re.findall(r"record: ringonce:useful_window_seconds\s+expr: \S+\s+labels:\s+channel: (\w+)", RULES.read_text())
    )
    assert windows == {*CHANNELS, ROUTER}


def test_every_alert_fires_in_a_rule_test_and_keeps_quiet_in_another() -> None:
    cases = re.split(r"- \{?(?=eval_time)", RULE_TESTS.read_text())
    fired: set[str] = set()
    quiet: set[str] = set()
    for case in cases:
        named = re.search(r"alertname: (\w+)", case)
        if named:
            (fired if "exp_alerts:" in case else quiet).add(named[1])
    assert fired == quiet == set(alerts())


def test_promtool_accepts_the_rules() -> None:
    promtool("check", "rules", RULES.name)


def test_the_rule_tests_pass() -> None:
    """Each alert fires where it should, and keeps quiet in a fleet that is in order."""
    promtool("test", "rules", RULE_TESTS.name)


@pytest.mark.parametrize("text", ["ringonce_nonsense > 1", 'ringonce_in_flight{host="a"}'])
def test_what_is_not_described_is_found(text: str) -> None:
    """The search above can find something."""
    assert unknown(text) != []
