"""How long to wait between the tries of one stage."""

from __future__ import annotations

from typing import Final

BASE: Final = 0.2
CAP: Final = 2.0
LONGEST_HONOURED: Final = 5.0
"""A provider's Retry-After up to this many seconds is waited for within the stage; a longer one is a later stage's."""


def full_jitter(tries: int, fraction: float, base: float = BASE, cap: float = CAP) -> float:
    """Seconds to wait after the `tries`-th try (from 1) failed.

    Exponential with full jitter: `fraction` in [0, 1) of the smaller of `cap` and ``base * 2**(tries - 1)``.
    """
    # The exponent is bounded because 2.0**1024 overflows.
    return fraction * min(cap, base * 2.0 ** min(tries - 1, 64))


def pause(tries: int, retry_after: float | None, fraction: float) -> float:
    """Seconds to wait within the stage: what the provider asked for when that is short, else the backoff."""
    if retry_after is not None and retry_after <= LONGEST_HONOURED:
        return retry_after
    return full_jitter(tries, fraction)
