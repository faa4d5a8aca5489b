"""What a stand consists of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Plan:
    """How many brokers, and the loopback ports; further brokers follow the first one's. Mocks by channel."""

    brokers: int = 1
    kafka_port: int = 19092
    postgres_port: int = 15441
    mocks: Mapping[str, int] = field(default_factory=lambda: {"firebase": 8091, "apns": 8092, "webhook": 8093})
