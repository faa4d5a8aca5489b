"""`ringonce doctor` where there is nothing to look at; with servers it is in tests/e2e."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from ringonce.cli import ringonce


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
