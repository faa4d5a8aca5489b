"""The Java runtime that Kafka needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from ringonce.stand.errors import StandError

_OLDEST = 17
_ANSWER_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Java:
    """The path of a `java` that is new enough, and its major version."""

    executable: str
    version: int

    @classmethod
    def find(cls) -> Java:
        """Looks at JAVA_HOME, then at PATH.

        Raises:
            StandError: there is none, it does not run, or it is older than 17.
        """
        home = os.environ.get("JAVA_HOME")
        executable = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
        if executable is None:
            where = f"JAVA_HOME ({home})" if home else "PATH"
            raise StandError(f"Kafka needs Java {_OLDEST} or newer, and there is no `java` in {where}")
        try:
            answer = subprocess.run(
                [executable, "-Xshare:auto", "-version"],
                capture_output=True,
                text=True,
                timeout=_ANSWER_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StandError(f"{executable} does not run: {error}") from error
        found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
        if found is None:
            raise StandError(f"{executable} does not say its version: {answer.stderr.strip()[:200]}")
        version = int(found[1])
        if version < _OLDEST:
            raise StandError(f"Kafka needs Java {_OLDEST} or newer; {executable} is Java {version}")
        return cls(executable, version)
