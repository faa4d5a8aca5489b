"""Whether a process is alive, and whether it is of use: the pages for supervisors."""

from __future__ import annotations

import json
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from ringonce.observe.server import Page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STILL: Final = 30.0
"""Seconds without progress after which a part counts as dead here; the watchdog waits for twice as long."""

OK: Final = 200
UNAVAILABLE: Final = 503


class Health:
    """Makes the two pages.

    Args:
        beats: by name, when each part of the process was last seen to make progress (monotonic).
        needs: by name, what has to be there for the process to be of use. Each returns what is wrong, or nothing; it
            may take a second or two.
        told: by name, what is reported without making anything fail.
    """

    def __init__(
        self,
        beats: Mapping[str, Callable[[], float]],
        needs: Mapping[str, Callable[[], str]],
        told: Mapping[str, Callable[[], Any]] | None = None,
    ) -> None:
        self._beats = beats
        self._needs = needs
        self._told = told or {}
        self._looking = threading.Lock()

    def ages(self) -> dict[str, float]:
        """Seconds since each part made progress."""
        now = monotonic()
        return {name: max(0.0, now - beat()) for name, beat in self._beats.items()}

    def alive(self) -> Page:
        """``/healthz``: nothing stands still."""
        parts = {name: "ok" if age < STILL else f"no progress for {age:.0f} s" for name, age in self.ages().items()}
        return _page(parts, {})

    def ready(self) -> Page:
        """``/readyz``: alive, and everything that is needed is there. Asked one at a time: servers are asked, too."""
        with self._looking:
            parts = {name: need() or "ok" for name, need in self._needs.items()}
        parts |= {name: f"no progress for {age:.0f} s" for name, age in self.ages().items() if age >= STILL}
        return _page(parts, {name: tell() for name, tell in self._told.items()})


def _page(parts: Mapping[str, str], told: Mapping[str, Any]) -> Page:
    ok = all(state == "ok" for state in parts.values())
    body = {"status": "ok" if ok else "failing", "parts": dict(parts), **told}
    return Page(OK if ok else UNAVAILABLE, "application/json", json.dumps(body).encode() + b"\n")
