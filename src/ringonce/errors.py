"""The errors that end a process, as one tree.

::

    RingonceError
    ├── ConfigurationError   exit 3: settings missing or wrong, all of them in one message
    ├── ServerUnreachable    exit 4: broker, database or another server not there at start
    ├── WorkLeftBehind       exit 5: an orderly stop that could not finish everything
    └── InternalError        exit 6: a background task died, or the process stood still

What concerns one record is never an exception up here: it is an outcome.
"""

from __future__ import annotations


class RingonceError(Exception):
    """Ends the process with `exit_code`; `str()` is one line for a person."""

    exit_code = 1


class ConfigurationError(RingonceError):
    """One or more settings are missing or wrong; `faults` names each of them."""

    exit_code = 3

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults
        super().__init__("\n".join(["configuration:", *(f"  - {fault}" for fault in faults)]))


class ServerUnreachable(RingonceError):  # noqa: N818 - reads as what happened, like the others in this tree
    """A server that the process cannot start without did not answer at `address` (never with a password)."""

    exit_code = 4

    def __init__(self, server: str, address: str, reason: str) -> None:
        self.server, self.address, self.reason = server, address, reason
        super().__init__(f"{server} at {address} is not reachable: {reason}")


class WorkLeftBehind(RingonceError):  # noqa: N818
    """The process stopped with `records` unfinished; they come again, nothing is lost."""

    exit_code = 5

    def __init__(self, records: int) -> None:
        self.records = records
        super().__init__(f"stopped with {records} records unfinished; they will be delivered again")


class InternalError(RingonceError):
    """Something inside died or stood still; the supervisor should start the process again."""

    exit_code = 6
