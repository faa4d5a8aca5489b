"""Apache Kafka's jars, fetched once with Maven."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from ringonce.stand.errors import StandError
from ringonce.stand.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

_POM = Path(__file__).with_name("kafka-pom.xml")
_FETCH_SECONDS = 300


class KafkaJars:
    """A folder with the jars of one Kafka release, and an archive of its classes that makes a JVM start faster."""

    def __init__(self, folder: Path) -> None:
        # Resolved: the archive is tied to the paths of the jars as the JVM was given them.
        self.folder = folder.resolve()
        self.archive = self.folder / "classes.jsa"

    @property
    def classpath(self) -> str:
        """The class path; its order is fixed, as the archive of classes is tied to it."""
        return ":".join(str(jar) for jar in sorted(self.folder.glob("*.jar")))

    @property
    def lacking(self) -> str:
        """Why the jars are not there and cannot be fetched; empty when they are, or when it can be tried."""
        if self._complete() or shutil.which("mvn"):
            return ""
        return "Kafka's jars are fetched with Maven, and there is no `mvn` in PATH"

    def fetch(self) -> None:
        """Fills the folder where it is missing: from Maven's local repository, else from Maven Central.

        Raises:
            StandError: there is no Maven, or it could not resolve the jars.
        """
        if self._complete():
            return
        with State(self.folder.parent).exclusively("jars"):
            if self._complete():
                return
            maven = shutil.which("mvn")
            if maven is None:
                raise StandError(self.lacking)
            new = self.folder.with_name(f"{self.folder.name}.new")
            shutil.rmtree(new, ignore_errors=True)
            # Offline first: it is faster and works without a network, but fails if one jar has never been fetched.
            failure = _copy(maven, ["-o"], new) and _copy(maven, [], new)
            if failure:
                what = "Maven could not fetch Kafka's jars; is its repository within reach?"
                raise StandError(f"{what} The embedded stand does without. It said: {failure}")
            new.rename(self.folder)

    def _complete(self) -> bool:
        """Whether the jars are there: a folder half filled never has this name."""
        return self.folder.is_dir()


def _copy(maven: str, options: Sequence[str], target: Path) -> str:
    """Copies the jars to `target`; returns what went wrong, or nothing."""
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={target}"]
    try:
        run = subprocess.run(
            [maven, *options, "-q", "-B", "-f", str(_POM), *goal],
            capture_output=True,
            text=True,
            timeout=_FETCH_SECONDS,
            check=False,
            cwd=target.parent,
        )
    except subprocess.TimeoutExpired:
        return f"no result after {_FETCH_SECONDS} s"
    if run.returncode == 0 and any(target.glob("kafka_*.jar")):
        return ""
    errors = [line for line in (run.stdout + run.stderr).splitlines() if "ERROR" in line]
    return errors[0].strip()[:500] if errors else f"exit status {run.returncode}"
