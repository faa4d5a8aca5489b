"""Reads `queries.sql`: every statement of ours, by name."""

from __future__ import annotations

import re
from importlib import resources
from typing import Final

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def _read() -> dict[str, str]:
    text = resources.files(__package__).joinpath("queries.sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)
    return {name: sql.strip() for name, sql in zip(parts[1::2], parts[2::2], strict=True)}


QUERIES: Final = _read()
