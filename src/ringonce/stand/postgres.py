"""A real PostgreSQL on loopback, which can be broken on purpose."""

from __future__ import annotations

import shutil
import signal
import time
from typing import TYPE_CHECKING

import psutil

from ringonce.stand.daemon import Daemon
from ringonce.stand.errors import StandError
from ringonce.stand.ports import LOOPBACK, free_port, require_free
from ringonce.stand.postgres_home import PostgresHome, location
from ringonce.stand.state import Entry, State

if TYPE_CHECKING:
    from pathlib import Path

NAME = "postgres"
ROLE = DATABASE = "ringonce"

_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.01

_INITDB = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8"]
_CREATE = f"CREATE ROLE {ROLE} LOGIN CREATEDB\nCREATE DATABASE {DATABASE} OWNER {ROLE}\n"

# The server's word that its predecessor's last processes have not yet noticed its death.
_PREDECESSOR = b"pre-existing shared memory block"


class PostgresServer:
    """One server with a role and a database `ringonce`, trusted on loopback, its port kept over restarts.

    Another object over the same directory, in this process or a later one, takes over what is running.

    Args:
        directory: the stand directory. The data is in `directory`/postgres, but see `postgres_home` for root.
        port: 0 means a free one, kept for as long as this object lives or the server runs.
        fsync: False trades durability against the machine's own crash (not the server's) for speed.
    """

    def __init__(self, directory: Path, port: int = 0, *, fsync: bool = True) -> None:
        self._state = State(directory)
        self._fsync = fsync
        entry = self._state.running(NAME)
        if entry and port not in {0, entry.ports[0]}:
            raise StandError(f"{NAME} already runs on port {entry.ports[0]}, not on {port}; stop it first")
        self.port = entry.ports[0] if entry else port or free_port()

    @property
    def url(self) -> str:
        """The connection URL of the database `ringonce`."""
        return f"postgresql://{ROLE}@{LOOPBACK}:{self.port}/{DATABASE}"

    @property
    def superuser_url(self) -> str:
        """The same database as the server's superuser."""
        return f"postgresql://postgres@{LOOPBACK}:{self.port}/{DATABASE}"

    @property
    def running(self) -> bool:
        """Whether the server's process is alive, which does not say that it answers."""
        return self._state.running(NAME) is not None

    def start(self, deadline: float = _START_SECONDS) -> None:
        """Starts the server unless it runs; returns when it takes connections, after recovery where that is due.

        Raises:
            StandError: no binaries, the port is taken, or the server did not come up within `deadline` seconds.
        """
        if not self.running:
            require_free(self.port, NAME, "--postgres-port")
        home = PostgresHome.prepare(self._state.directory)
        if not home.data.is_dir():
            self._create(home)
        log = self._state.log(NAME)
        until = time.monotonic() + deadline
        seen: int | None = None
        while not self._ready(home):
            if not self.running:
                if seen is not None and _PREDECESSOR not in _written(log, seen):
                    raise StandError.with_log(f"{NAME} ended while it was starting", log)
                seen = log.stat().st_size if log.exists() else 0
                self._launch(home, log)
            if time.monotonic() > until:
                self.stop()
                raise StandError.with_log(f"{NAME} did not come up within {deadline:g} s", log)
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Stops the server at once but in order (connections are cut, nothing is lost); the data stays."""
        entry = self._state.entries().get(NAME)
        if entry:
            entry.daemon.stop(_STOP_SECONDS, signal.SIGINT)
            self._state.forget(NAME)

    def purge(self) -> None:
        """Removes the data and whatever else the server had outside the stand directory; it must be stopped."""
        shutil.rmtree(location(self._state.directory), ignore_errors=True)

    def kill(self) -> None:
        """SIGKILL to the server and all its children; returns when they are gone."""
        self._daemon().kill()

    def restart(self, deadline: float = _START_SECONDS) -> None:
        """Stops the server if it runs, and starts it on the same port and data."""
        if self.running:
            self._daemon().stop(_STOP_SECONDS, signal.SIGINT)
        self.start(deadline)

    def pause(self) -> None:
        """SIGSTOP to the server and all its children: connections stay open and nothing answers."""
        self._daemon().pause()

    def resume(self) -> None:
        """SIGCONT to the server and all its children."""
        self._daemon().resume()

    def _daemon(self) -> Daemon:
        entry = self._state.running(NAME)
        if entry is None:
            raise StandError(f"{NAME} does not run")
        return entry.daemon

    def _create(self, home: PostgresHome) -> None:
        """Makes the data, role and database included, under another name until it is complete."""
        new = home.make_data_folder()
        home.run("initdb", f"--pgdata={new}", *_INITDB, *([] if self._fsync else ["--no-sync"]))
        # Without a server: one process, one command a line. It exits 0 whatever the commands did.
        fast = [] if self._fsync else ["-c", "fsync=off"]
        output = home.run("postgres", "--single", *fast, "-D", str(new), "postgres", text=_CREATE)
        if "ERROR:" in output:
            raise StandError(f"{NAME}: the database could not be created: {output.strip()[-500:]}")
        new.rename(home.data)

    def _launch(self, home: PostgresHome, log: Path) -> None:
        _remove_stale_lock(home.data / "postmaster.pid")
        settings = {
            "listen_addresses": LOOPBACK,
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 200,
            "timezone": "UTC",
            "log_timezone": "UTC",
            # synchronous_commit stays on: without it the server's own crash would lose what was committed last.
            **({} if self._fsync else {"fsync": "off", "full_page_writes": "off"}),
        }
        arguments = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        Daemon.launch(
            [str(home.binaries / "postgres"), "-D", str(home.data), *arguments],
            log=log,
            record=lambda daemon: self._state.record(NAME, Entry(daemon, (self.port,))),
            env=home.environment,
            directory=home.folder,
            account=home.account,
        )

    def _ready(self, home: PostgresHome) -> bool:
        """Whether the server itself has noted in its lock file that it takes connections."""
        entry = self._state.running(NAME)
        if entry is None:
            return False
        try:
            lines = (home.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return lines[:1] == [str(entry.daemon.pid)] and [line.strip() for line in lines[7:]] == ["ready"]


def _written(log: Path, since: int) -> bytes:
    """What was added to the log after its first `since` bytes."""
    with log.open("rb") as text:
        text.seek(since)
        return text.read()


def _remove_stale_lock(lock: Path) -> None:
    """Removes the lock file of a killed server when its pid is another program's now, or nobody has reaped it yet.

    PostgreSQL recognises a free pid by itself, but takes any other for its predecessor.
    """
    try:
        pid = int(lock.read_text().split("\n", 1)[0])
        process = psutil.Process(pid)
        if process.name() != "postgres" or process.status() == psutil.STATUS_ZOMBIE:
            lock.unlink()
    except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
        return
