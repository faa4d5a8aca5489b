"""`docs/semantics.md` and `ringonce config` say what the code does, and name tests that there are."""

from __future__ import annotations

import pytest
from docs import generate_semantics as generator
from tests.integration import test_semantics as proofs

from ringonce.channels.registry import CATALOGUE
from ringonce.domain.semantics import AtMostOnce, Bounded, EffectivelyOnce, OnExhausted, OnRefused
from ringonce.tools.guarantees import PROOF, Window, kills, lines, promise, usual


def test_the_page_is_what_would_be_generated() -> None:
    """Red means: a channel or a semantics has changed; run `python docs/generate_semantics.py`."""
    text = generator.PAGE.read_text(encoding="utf-8")
    assert text == generator.page(text)


def test_every_channel_has_its_promise() -> None:
    assert list(usual()) == list(CATALOGUE)
    assert {name: str(semantics) for name, semantics in usual().items()} == {
        **dict.fromkeys(("firebase", "apns", "webhook"), "effectively-once"),
        **dict.fromkeys(("email", "ntfy"), "bounded(3)"),
    }


def test_every_window_has_a_test_that_shows_it() -> None:
    """The tests that are named are those of the integration suite, each with its semantics and its failpoint."""
    shown = {f"{PROOF}[{name.partition('(')[0]}-{point}]" for name, point in proofs.WINDOWS}
    named = [kill.proof for kind in (EffectivelyOnce(), AtMostOnce(), Bounded()) for kill in kills(kind)]
    assert set(named) == shown
    assert len(set(named)) == len(named) == 3 * len(Window)
    assert PROOF.endswith(f"::{proofs.test_kill_in_a_window.__name__}")


def test_what_is_declared_beside_the_name_is_said_too() -> None:
    assert "stays `unknown`, a refusal is tried again" in promise(AtMostOnce())
    assert "stays `unknown`, a refusal stays `unknown`" in promise(AtMostOnce(OnRefused.UNKNOWN))
    assert "at most 5 times" in promise(Bounded(5))
    assert promise(Bounded(5, OnExhausted.DLQ)).endswith("ends in the DLQ")


@pytest.mark.parametrize("semantics", [EffectivelyOnce(), AtMostOnce(), Bounded(7)], ids=str)
def test_for_a_terminal(semantics: EffectivelyOnce | AtMostOnce | Bounded) -> None:
    """One line for the promise, two for each window, without Markdown."""
    found = lines("email", semantics)
    assert found[0].startswith(f"email → {semantics}: ")
    assert len(found) == 1 + 2 * len(Window)
    assert not any("`" in line for line in found)
