"""`ringonce doctor` where there is nothing to look at; with servers it is in tests/e2e."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from ringonce.cli import ringonce
from ringonce.kafka.broker_clock import Reading
from ringonce.tools.examination import judged


def test_without_any_settings() -> None:
    """Everything that is missing, and where it is described."""
    result = CliRunner().invoke(ringonce, ["doctor"])
    assert result.exit_code == 3
    assert result.output.splitlines() == [
        "refused  settings: KAFKA_BOOTSTRAP is not set",
        "         → docs/configuration.md has every setting",
        "refused  settings: DATABASE_URL is not set",
        "         → docs/configuration.md has every setting",
        "warning  channels: none has settings here",
        "         → senders need RINGONCE_CHANNELS__<CHANNEL>__TARGET and SECRET, on the machines where they run",
    ]


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colours_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch, no_color: str, *, coloured: bool) -> None:
    """`color` stands for a terminal here."""
    monkeypatch.setenv("NO_COLOR", no_color)
    assert ("\x1b[" in CliRunner().invoke(ringonce, ["doctor"], color=True).output) is coloured


@pytest.mark.parametrize(
    ("appended", "verdict", "text"),
    [
        ([100.1, 100.1], "ok", "Kafka's and this machine's are within 1 s of each other"),
        ([100.9, 99.1], "ok", "Kafka's and this machine's are within 1 s of each other"),
        ([100.1, 131.2], "warning", "broker 2 is 31.0 s ahead of this machine"),
        ([98.0, 103.0], "warning", "broker 1 is 2.0 s behind this machine, broker 2 is 2.8 s ahead of this machine"),
        ([], "ok", "an embedded broker cannot be asked for its time"),
    ],
)
def test_what_a_difference_of_clocks_means(appended: list[float], verdict: str, text: str) -> None:
    """Beyond a second it is a warning that says which broker, which way, and what to do."""
    found = judged([Reading(number, 100.0, at, 100.2) for number, at in enumerate(appended, start=1)])
    assert (found.subject, found.verdict.value, found.text) == ("clocks", verdict, text)
    assert bool(found.advice) is (verdict == "warning")


def test_a_broker_that_is_too_slow_to_tell() -> None:
    """An acknowledgement that took longer than the bound hides as much."""
    found = judged([Reading(1, 100.0, 101.0, 102.5)])
    assert (found.verdict.value, found.text) == ("warning", "an acknowledgement took 2.5 s: too long to tell")
