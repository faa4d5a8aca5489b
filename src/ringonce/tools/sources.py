"""Where `ringonce top` reads: the metrics ports of the fleet's processes, or Kafka and PostgreSQL themselves."""

from __future__ import annotations

import time
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ringonce.errors import ServerUnreachable
from ringonce.exporting import looks
from ringonce.observe.exposition import Exposition
from ringonce.observe.metrics import Metric
from ringonce.observe.reading import Reading, Unreadable, Value, read_page
from ringonce.runtime.clock import SystemClock
from ringonce.runtime.surveyor import Surveyor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ringonce.channels.registry import ChannelRow
    from ringonce.settings import ExporterSettings

EXPORTER_PORT: Final = 9460
FLEET_PORTS: Final = range(9464, 9496)
"""What `ringonce fleet --metrics-port 9464` gives out, role by role."""
TIMEOUT: Final = 2.0
OK: Final = 200


class Endpoint(NamedTuple):
    """A process's metrics port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def usual_endpoints() -> list[Endpoint]:
    """The ports of this machine on which an exporter or a fleet answers that was told no others."""
    usual = [Endpoint("127.0.0.1", port) for port in (EXPORTER_PORT, *FLEET_PORTS)]
    return [endpoint for endpoint in usual if ask(endpoint)]


def ask(endpoint: Endpoint) -> list[Value]:
    """What a process says; nothing when it does not answer, or is none of ours."""
    connection = HTTPConnection(endpoint.host, endpoint.port, timeout=TIMEOUT)
    try:
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        return read_page(response.read().decode()) if response.status == OK else []
    except (OSError, HTTPException, UnicodeDecodeError, Unreadable):
        return []
    finally:
        connection.close()


class Source(Protocol):
    """Gives one reading after the other."""

    def read(self) -> Reading:
        """The fleet at this moment.

        Raises:
            ServerUnreachable: nothing can be seen of it.
        """
        ...

    def __str__(self) -> str:
        """Where the reading comes from, for a person."""
        ...


class Endpoints:
    """Implements `Source` over metrics ports; those that do not answer are counted."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._endpoints = endpoints
        self._silent: list[Endpoint] = []

    def read(self) -> Reading:
        """See `Source.read`."""
        at = time.monotonic()
        pages = {endpoint: ask(endpoint) for endpoint in self._endpoints}
        self._silent = [endpoint for endpoint, page in pages.items() if not page]
        if len(self._silent) == len(pages):
            named = ", ".join(map(str, self._endpoints))
            raise ServerUnreachable("metrics port", named, "no process of a fleet answers there")
        return Reading(at, pages.values())

    def __str__(self) -> str:
        silent = f", {len(self._silent)} silent: {', '.join(map(str, self._silent))}" if self._silent else ""
        heard = len(self._endpoints) - len(self._silent)
        return f"{heard} metrics port{'' if heard == 1 else 's'}{silent}"


class Servers:
    """Implements `Source` over Kafka and PostgreSQL: what does not need a process of the fleet to be known."""

    def __init__(self, surveyor: Surveyor, parts: Iterable[_Look]) -> None:
        self._parts = list(parts)
        self._exposition = Exposition([surveyor.samples])

    def read(self) -> Reading:
        """See `Source.read`."""
        for part in self._parts:
            part.look()
        at = time.monotonic()
        reading = Reading(at, [read_page(self._exposition.page().decode())])
        if not any(reading.values(Metric.SEEN)):
            raise ServerUnreachable("Kafka", "KAFKA_BOOTSTRAP", "neither it nor PostgreSQL answers")
        return reading

    def __str__(self) -> str:
        silent = [part.server for part in self._parts if part.trouble]
        return "Kafka and PostgreSQL" + (f", of which {silent[0]} does not answer" if silent else "")


class _Look(Protocol):
    server: str
    trouble: str

    def look(self) -> None: ...


@contextmanager
def servers(settings: ExporterSettings, rows: Iterable[ChannelRow]) -> Iterator[Servers]:
    """Look at the servers, as the exporter does."""
    with looks(settings, rows) as (kafka, database):
        yield Servers(Surveyor(kafka, database, SystemClock()), (kafka, database))
