"""A real Apache Kafka of one or three brokers on loopback, which can be broken on purpose."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ringonce.stand.daemon import Daemon
from ringonce.stand.errors import StandError
from ringonce.stand.java import Java
from ringonce.stand.kafka_config import Front, Node, properties
from ringonce.stand.kafka_jars import KafkaJars
from ringonce.stand.kafka_probe import known_brokers
from ringonce.stand.kafka_storage import lay_out
from ringonce.stand.ports import LOOPBACK, free_port, require_free
from ringonce.stand.state import Entry, State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LOG4J = Path(__file__).with_name("kafka-log4j2.xml")
_HEAP = ["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC"]
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_ARCHIVE_SECONDS = 120.0
_POLL_SECONDS = 0.02


class KafkaCluster:
    """Brokers with the ids 1 to `brokers`, keeping their data in `directory`/kafka.

    Another object over the same directory, in this process or a later one, takes over what is running.

    Args:
        directory: the stand directory; logs and the record of what runs are in it too.
        brokers: 1 or 3.
        ports: the clients' port of each broker; 0 or absent means a free one, kept for as long as this object lives
            or the cluster runs.
        jars: where Kafka's jars are or will be fetched to; `directory`/jars unless given.
        settings: more broker properties, over those of `kafka_config`.
        fronts: a second way into each broker, or none.
        env: more environment variables for the brokers.
    """

    def __init__(
        self,
        directory: Path,
        brokers: int = 1,
        ports: Sequence[int] = (),
        *,
        jars: Path | None = None,
        settings: Mapping[str, str] | None = None,
        fronts: Sequence[Front] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        if brokers not in {1, 3}:
            raise StandError(f"a stand has 1 or 3 brokers, not {brokers}")
        if len(fronts) not in {0, brokers}:
            raise StandError(f"each of {brokers} broker(s) has a front, or none has: there are {len(fronts)}")
        self._state = State(directory)
        self._folder = self._state.directory / "kafka"
        self._jars = KafkaJars(jars or self._state.directory / "jars")
        self._settings = dict(settings or {})
        self._fronts = dict(enumerate(fronts, start=1))
        self._env = dict(env or {})
        self._jvm_options: list[str] = []
        wanted = [*ports, *[0] * brokers][:brokers]
        self._nodes: list[Node] = []
        for number, port in enumerate(wanted, start=1):
            promised = {port for node in self._nodes for port in (node.port, node.controller_port)}
            promised.update(wanted, (front.port for front in fronts))
            self._nodes.append(self._node(number, port, promised))

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, as clients take them."""
        return ",".join(f"{LOOPBACK}:{node.port}" for node in self._nodes)

    @property
    def running(self) -> bool:
        """Whether every broker's process is alive, which does not say that it answers."""
        return all(self._state.running(node.name) for node in self._nodes)

    def start(self, deadline: float = _START_SECONDS) -> None:
        """Starts the brokers that do not run; returns when each answers and knows all of them.

        Args:
            deadline: seconds for that, not counting the fetching of Kafka itself the first time.

        Raises:
            StandError: no Java, no Maven, a port is taken, or a broker did not come up; what this call started is
                stopped again.
        """
        self._jars.fetch()
        self._archive_classes()
        missing = [node for node in self._nodes if self._state.running(node.name) is None]
        for node in missing:
            require_free(node.port, node.name, "--kafka-port")
            require_free(node.controller_port, f"{node.name} (controller)")
        lay_out(self._nodes, self._jvm(), self._settings)
        try:
            for node in missing:
                self._launch(node)
            self._wait(self._nodes, frozenset(node.id for node in self._nodes), deadline)
        except BaseException:
            _stop(self._state, [node.name for node in missing], grace=0)
            raise

    def stop(self, grace: float = _STOP_SECONDS) -> None:
        """Stops all brokers of the directory in an orderly way, after `grace` seconds by force; the data stays."""
        _stop(self._state, list(self._state.entries()), grace)
        if self._training.exists():
            with State(self._jars.folder.parent).exclusively("jars"):
                self._end_training()

    def purge(self) -> None:
        """Removes the data; the brokers must be stopped. The next start begins with an empty cluster."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self, broker: int = 1) -> None:
        """SIGKILL to one broker; returns when it is gone."""
        self._daemon(broker).kill()

    def restart(self, broker: int = 1, deadline: float = _START_SECONDS) -> None:
        """Starts a broker again on the same port and data, after an orderly stop when it still runs.

        Returns when the broker has been admitted to the cluster.
        """
        node = self._nodes[broker - 1]
        entry = self._state.running(node.name)
        if entry:
            entry.daemon.stop(_STOP_SECONDS)
        self._launch(node)
        self._wait([node], frozenset([node.id]), deadline)

    def pause(self, broker: int = 1) -> None:
        """SIGSTOP: the broker keeps its connections and says nothing more."""
        self._daemon(broker).pause()

    def resume(self, broker: int = 1) -> None:
        """SIGCONT: the broker goes on where it was paused."""
        self._daemon(broker).resume()

    def _node(self, number: int, wanted: int, promised: set[int]) -> Node:
        """Gives a broker the ports on which it already runs, else those wanted, else free ones that nobody else has."""
        entry = self._state.running(f"kafka-{number}")
        if entry and wanted not in {0, entry.ports[0]}:
            raise StandError(f"kafka-{number} already runs on port {entry.ports[0]}, not on {wanted}; stop it first")
        if entry:
            port, controller_port = entry.ports
        else:
            port = wanted or free_port(promised)
            controller_port = free_port({*promised, port})
        return Node(number, port, controller_port, self._folder / str(number), self._fronts.get(number))

    def _daemon(self, broker: int) -> Daemon:
        entry = self._state.running(self._nodes[broker - 1].name)
        if entry is None:
            raise StandError(f"broker {broker} does not run")
        return entry.daemon

    def _launch(self, node: Node) -> None:
        configuration = node.folder / "server.properties"
        configuration.write_text(properties(node, self._nodes, node.data, self._settings))
        Daemon.launch(
            [*self._jvm(), *_HEAP, *self._jvm_options, "kafka.Kafka", str(configuration)],
            log=self._state.log(node.name),
            record=lambda daemon: self._state.record(node.name, Entry(daemon, (node.port, node.controller_port))),
            env={**os.environ, "LC_ALL": "C.UTF-8", **self._env},
        )

    @functools.cached_property
    def _java(self) -> Java:
        return Java.find()

    def _jvm(self) -> list[str]:
        archive = self._jars.archive
        shared = [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() and archive.stat().st_size else []
        quiet = ["-Xlog:disable", "-Xlog:all=error:stderr", "-Djava.awt.headless=true"]
        return [
            self._java.executable,
            *shared,
            *quiet,
            f"-Dlog4j2.configurationFile={_LOG4J}",
            "-cp",
            self._jars.classpath,
        ]

    def _wait(self, nodes: Sequence[Node], expected: frozenset[int], seconds: float) -> None:
        """Waits until each of `nodes` answers and knows the brokers `expected`."""
        deadline = time.monotonic() + seconds
        for node in nodes:
            while not expected <= known_brokers(LOOPBACK, node.port):
                if self._state.running(node.name) is None:
                    raise StandError.with_log(f"{node.name} ended while it was starting", self._state.log(node.name))
                if time.monotonic() > deadline:
                    what = f"{node.name} on port {node.port} did not answer within {seconds:g} s"
                    raise StandError.with_log(what, self._state.log(node.name))
                time.sleep(_POLL_SECONDS)

    def _archive_classes(self) -> None:
        """Once per folder of jars: runs a broker to learn which classes it loads, and keeps them ready to map.

        That more than halves the time of every later start. An empty archive says that this JVM cannot do it.
        """
        archive = self._jars.archive
        # The teacher comes by here too, while the lock is held for it.
        if archive.exists() or self._jvm_options:
            return
        with State(self._jars.folder.parent).exclusively("jars"):
            if archive.exists():
                return
            self._end_training()
            new = archive.with_suffix(".new")
            new.unlink(missing_ok=True)
            teacher = KafkaCluster(self._training, jars=self._jars.folder)
            teacher._jvm_options = [f"-XX:ArchiveClassesAtExit={new}"]
            try:
                teacher.start()
                _stop(teacher._state, ["kafka-1"], grace=_ARCHIVE_SECONDS)
            finally:
                self._end_training()
            new.touch()
            new.rename(archive)

    @property
    def _training(self) -> Path:
        return self._jars.folder.with_name(f"{self._jars.folder.name}.training")

    def _end_training(self) -> None:
        """Removes the broker from which the classes are learnt, also one whose process was killed in the middle."""
        training = State(self._training)
        _stop(training, list(training.entries()), grace=0)
        shutil.rmtree(self._training, ignore_errors=True)


def _stop(state: State, names: Sequence[str], grace: float) -> None:
    """Stops brokers together: of three, the last would wait in vain for a majority of controllers."""
    entries = {name: entry for name, entry in state.entries().items() if name in names and name.startswith("kafka-")}
    for entry in entries.values():
        entry.daemon.send(signal.SIGCONT)
        entry.daemon.send(signal.SIGTERM)
    deadline = time.monotonic() + grace
    for name, entry in entries.items():
        if not entry.daemon.wait_gone(max(deadline - time.monotonic(), 0)):
            entry.daemon.kill()
        state.forget(name)
