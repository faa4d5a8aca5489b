"""How the unit tests look for examples."""

from __future__ import annotations

from hypothesis import settings

# The machine decides how long an example takes, so that must not decide whether it passes.
settings.register_profile("unit", deadline=None, max_examples=50, print_blob=True)
settings.load_profile("unit")
