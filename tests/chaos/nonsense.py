"""Values that can never be delivered, by what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.fixtures.site import notification

from ringonce.domain.notification import Channel
from ringonce.kafka.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

NONSENSE: Final[Mapping[str, Callable[[Random], bytes | None]]] = {
    "a tombstone": lambda _: None,
    "no bytes": lambda _: b"",
    "random bytes": lambda random: random.randbytes(random.randint(1, 300)),
    "a truncated notification": lambda random: encode(notification(f"cut-{random.getrandbits(40)}"))[:-7],
    "deeply nested groups": lambda _: b"\x0b" * 5000,
    "a string that is no UTF-8": lambda _: b"\x0a\x02\xff\xfe" + b"\x18\x01",
    "an empty id": lambda _: encode(notification(0, id="")),
    "an id with a blank": lambda _: encode(notification(0, id="no good")),
    "a replay's id": lambda _: encode(notification(0, id="replay-1-x")),
    "no channel": lambda random: encode(notification(f"nowhere-{random.getrandbits(40)}", Channel.UNSPECIFIED)),
    "a channel that nobody knows": lambda _: encode(notification(0, id="")) + b"\x18\x63",
    "a channel that is not configured": lambda random: encode(
        notification(f"else-{random.getrandbits(40)}", Channel.NTFY)
    ),
    "a target that must not be called": lambda random: encode(
        notification(f"astray-{random.getrandbits(40)}", Channel.WEBHOOK, target="http://169.254.169.254/latest")
    ),
}
