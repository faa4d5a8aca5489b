"""The storage of a new Kafka cluster."""

from __future__ import annotations

import base64
import secrets
import shutil
import subprocess
from typing import TYPE_CHECKING

from ringonce.stand.errors import StandError
from ringonce.stand.kafka_config import Node, properties

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TOOL = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format"]
_TOOL_SECONDS = 60.0


def lay_out(nodes: Sequence[Node], jvm: Sequence[str], settings: Mapping[str, str]) -> None:
    """Formats the data folders of a cluster's nodes, unless that was done before.

    Kafka's own tool, run in `jvm`, formats the first node's; the others' differ from it in two lines only. The first
    node's folder gets its final name last: where it has that name, everything is complete.

    Raises:
        StandError: the folders are those of a cluster with another number of nodes, or the tool failed.
    """
    first, *rest = nodes
    if first.data.is_dir():
        cluster = first.folder.parent
        there = len(list(cluster.glob("*/data")))
        if there != len(nodes):
            what = f"{cluster} holds the data of {there} broker(s), not of {len(nodes)}"
            raise StandError(f"{what}; `ringonce stand down --purge` removes it, and the database's too")
        return
    for node in nodes:
        shutil.rmtree(node.new_data, ignore_errors=True)
        shutil.rmtree(node.data, ignore_errors=True)
        node.folder.mkdir(parents=True, exist_ok=True)
    configuration = first.folder / "format.properties"
    configuration.write_text(properties(first, nodes, first.new_data, settings))
    try:
        run = subprocess.run(
            [*jvm, *_TOOL, "-t", _uuid(), "-c", str(configuration)],
            capture_output=True,
            text=True,
            check=False,
            timeout=_TOOL_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise StandError(f"Kafka could not format {first.data} within {_TOOL_SECONDS:g} s") from error
    if run.returncode:
        raise StandError(f"Kafka could not format {first.data}: {(run.stderr or run.stdout).strip()[-500:]}")
    for node in rest:
        shutil.copytree(first.new_data, node.new_data)
        _rename_node(node)
    for node in (*rest, first):
        node.new_data.rename(node.data)


def _rename_node(node: Node) -> None:
    """Gives a copy of the first node's folder the identity of `node`."""
    path = node.new_data / "meta.properties"
    own = {"node.id": str(node.id), "directory.id": _uuid()}
    lines = (line.partition("=") for line in path.read_text().splitlines())
    path.write_text("".join(f"{key}{equals}{own.get(key, value)}\n" for key, equals, value in lines))


def _uuid() -> str:
    """A random id as Kafka writes them: 16 bytes in base64 for URLs, not beginning with a dash."""
    return base64.urlsafe_b64encode(b"R" + secrets.token_bytes(15)).decode().rstrip("=")
