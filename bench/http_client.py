"""The deliveries' HTTP client alone: the same signed posts, built before, to the same provider, and nothing else.

    python -m bench.http_client PROVIDER_URL COUNT [one-core]

prints requests per second and the CPU time of one, as JSON. With `one-core` it is kept on one, like a sender.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from bench.figures import steady_rate
from bench.letters import notification
from bench.rig import SECRET
from ringonce.channels.http_pyreqwest import PyreqwestHttp
from ringonce.channels.registry import CHANNELS
from ringonce.channels.relay import BodyFormat, Relay
from ringonce.runtime.affinity import Affinity
from ringonce.runtime.lifecycle import run_async

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ringonce.channels.http import Request

IN_FLIGHT: Final = 64
"""As many as a sender has send slots."""
DEADLINE: Final = 3.0


async def post_all(requests: list[Request]) -> dict[str, float]:
    """Post them all, so many at once."""
    http = PyreqwestHttp()
    times: list[float] = []

    async def worker(waiting: Iterator[Request]) -> None:
        for request in waiting:
            reply = await http.post(request.url, request.headers, request.body, DEADLINE)
            if reply.status != 200:  # noqa: PLR2004 - OK
                raise SystemExit(f"the provider answered {reply.status}")
            times.append(time.monotonic())

    waiting = iter(requests)
    cpu = time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(worker(waiting))
    cpu = time.process_time() - cpu
    await http.close()
    return {"per_s": steady_rate(times), "cpu_us": cpu / len(requests) * 1e6}


def main(url: str, count: int, *, one_core: bool = False) -> None:
    """Build the requests, post them, print the figures."""
    relay = Relay(CHANNELS["firebase"], url, SECRET.encode(), BodyFormat.JSON)
    requests = [relay.request(notification(f"http-{n:08d}", n), f"http-{n:08d}", None, b"") for n in range(count)]

    async def role(_: asyncio.Event) -> dict[str, float]:
        with Affinity() if one_core else nullcontext():
            return await post_all(requests)

    # As a sender runs: on uvloop, with its settings of the garbage collector.
    print(json.dumps(run_async(role)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), one_core="one-core" in sys.argv[3:])
