"""What one mock provider takes on one core: requests per second, and CPU time per request.

Run ``python bench/mock_rate.py``. The mock runs as a process of its own on the first core, the client here on the last
one: 64 connections, each with one signed POST of 300 bytes under way, written as finished bytes so that the client
costs as little as possible. With one core only, both share it and the rate says nothing; the CPU time still does.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import hmac
import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import uvloop

SECRET = "bench"  # noqa: S105 - both ends of the benchmark know it
BODY = json.dumps({"id": "x", "title": "t" * 276}).encode()
CONNECTIONS = 64
WARM_UP = 0.5
START = "from ringonce.mock.commands import mock; mock()"


class Client(asyncio.Protocol):
    """Keeps one request under way. Every answer has the length of the first: the mock is healthy and says so alike."""

    counter = 0

    def __init__(self, host: str) -> None:
        signature = hmac.new(SECRET.encode(), BODY, hashlib.sha256).hexdigest()
        self._before = f"POST /send HTTP/1.1\r\nHost: {host}\r\nIdempotency-Key: ".encode()
        self._after = (
            f"\r\nX-Signature: {signature}\r\nX-Channel: firebase\r\nX-Trace-Id: 4bf92f3577b34da6a3ce929d0e0e4736\r\n"
            "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
        ).encode() + BODY
        self.answers = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        # A cast: uvloop's transports are no subclass.
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        """Count the answer and send the next request."""
        if not data.startswith(b"HTTP/1.1 200 "):
            raise SystemExit(f"unexpected answer: {data[:200]!r}")
        self.answers += 1
        self._send()

    def close(self) -> None:
        """Stop."""
        self._transport.abort()

    def _send(self) -> None:
        Client.counter += 1
        self._transport.write(self._before + b"%036d" % Client.counter + self._after)


def cpu_seconds(process: int) -> float:
    """User and system time that a process has used, from /proc."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def load(host: str, port: int, process: int, seconds: float) -> dict[str, float]:
    """Load the mock for a while and measure."""
    loop = asyncio.get_running_loop()
    clients = [
        (await loop.create_connection(lambda: Client(f"{host}:{port}"), host, port))[1] for _ in range(CONNECTIONS)
    ]
    await asyncio.sleep(WARM_UP)
    answers, cpu, own, began = (
        sum(c.answers for c in clients),
        cpu_seconds(process),
        time.process_time(),
        time.monotonic(),
    )
    await asyncio.sleep(seconds)
    answers = sum(client.answers for client in clients) - answers
    took = time.monotonic() - began
    figures = {
        "requests_per_s": round(answers / took),
        "mock_cpu_us_per_request": round((cpu_seconds(process) - cpu) / answers * 1e6, 1),
        "mock_core_busy": round((cpu_seconds(process) - cpu) / took, 2),
        "client_core_busy": round((time.process_time() - own) / took, 2),
    }
    for client in clients:
        client.close()
    return figures


def main() -> None:
    """Start the mock, load it, print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0)
    seconds = parser.parse_args().seconds
    cores = sorted(os.sched_getaffinity(0))
    command = [sys.executable, "-c", START, "--name", "firebase", "--port", "0", "--secret", SECRET]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as mock:
        try:
            os.sched_setaffinity(mock.pid, {cores[0]})
            os.sched_setaffinity(0, {cores[-1]})
            assert mock.stdout is not None  # noqa: S101 - it is a pipe
            url = mock.stdout.readline().split()[-1]
            address = urlsplit(url)
            figures = uvloop.run(load(str(address.hostname), int(address.port or 0), mock.pid, seconds))
            with urllib.request.urlopen(f"{url}/stats", timeout=5) as answer:  # noqa: S310 - the mock's own http address
                stats = json.load(answer)
        finally:
            mock.terminate()
    if stats["bad_signatures"] or stats["duplicates"] or stats["acts"] != stats["requests"]:
        raise SystemExit(f"the mock saw something else than was sent: {stats}")
    print(json.dumps({"figures": figures, "requests": stats["requests"], "cores": len(cores)}))


if __name__ == "__main__":
    main()
