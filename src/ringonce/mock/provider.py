"""One mock provider's state: its knobs, its memory, its secret and its luck."""

from __future__ import annotations

import hashlib
import random
import time
from typing import TYPE_CHECKING

from ringonce.errors import ConfigurationError
from ringonce.mock.decision import Decision, Delivery, Signatures, decide
from ringonce.mock.faults import Faults
from ringonce.mock.memory import DEFAULT_LIMIT, Act, Call, Memory

if TYPE_CHECKING:
    from collections.abc import Mapping

HASH_BYTES = 8
"""Of the body's SHA-256 that are remembered: enough to tell bodies apart, and half a million of them fit."""


class Provider:
    """Takes deliveries and remembers them. Belongs to one thread: that of the loop it is served in.

    Args:
        name: what it stands for, e.g. the channel.
        secret: deliveries signed otherwise are answered 401; None or empty: signatures are not looked at.
        faults: at the start.
        seed: of its luck: the same deliveries in the same order meet the same faults.
        limit: how many deliveries are remembered.
    """

    def __init__(
        self,
        name: str,
        *,
        secret: str | None = None,
        faults: Faults | None = None,
        seed: int = 0,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        self.name = name
        self.faults = faults or Faults()
        self.memory = Memory(limit)
        self._signatures = Signatures(secret.encode()) if secret else None
        self._chance = random.Random(seed).random  # noqa: S311 - luck, not a secret

    def deliver(self, delivery: Delivery) -> tuple[Call, Decision]:
        """Decide about a delivery and remember it; whoever answers it reports to the memory it is in now."""
        decision = decide(delivery, self.faults, self.memory, self._chance, self._signatures)
        digest = hashlib.sha256(delivery.body).digest()[:HASH_BYTES]
        call = Call(delivery.key, digest, time.monotonic(), time.time(), decision.kind)
        self.memory.arrived(call, decision.hits)
        return call, decision

    def chaos(self, knobs: Mapping[str, object]) -> Faults:
        """Turn knobs while running: all of them or, when one is wrong, none.

        Args:
            knobs: by name. None at all, or `reset` set to true, first turns everything back to the defaults (those of
                `Faults`, not those of the environment).

        Raises:
            ConfigurationError: naming every unknown knob and wrong value.
        """
        wanted = dict(knobs)
        reset = wanted.pop("reset", False)
        if not isinstance(reset, bool):
            raise ConfigurationError(["reset: true or false"])
        base = Faults() if reset or not knobs else self.faults
        self.faults = base.changed(wanted)
        return self.faults

    def forget(self) -> None:
        """Start with an empty memory. Deliveries under way end in the old one and are never seen in the new."""
        self.memory = Memory(self.memory.limit)

    def stats(self) -> dict[str, object]:
        """Counts over everything since the start or the last `forget`, and the knobs in force."""
        return {"name": self.name, **self.memory.stats(), "faults": self.faults.as_knobs()}

    def acts(self, since: int = 0, limit: int | None = None) -> list[Act]:
        """The remembered acts numbered above `since`, oldest first, at most `limit`."""
        return self.memory.acts(since, limit)

    def calls(self) -> list[Act]:
        """Every remembered delivery, refused ones too, in order of arrival."""
        return self.memory.calls()
