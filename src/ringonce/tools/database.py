"""`ringonce db …`."""

from __future__ import annotations

import os
import shutil

import click

from ringonce.settings import DatabaseSettings, load
from ringonce.store import schema


def _url(database_url: str | None) -> str:
    return load(DatabaseSettings, database_url=database_url).database_url.get_secret_value()


option = click.option("--database-url", help="PostgreSQL as a libpq URL [env: DATABASE_URL].")


@click.group()
def db() -> None:
    """Make and empty the database's schema."""


@db.command()
@option
def init(database_url: str | None) -> None:
    """Apply the migrations that have not been applied yet.

    Example: ringonce db init
    """
    done = schema.migrate(_url(database_url))
    click.echo("\n".join(f"applied {name}" for name in done) or "the schema is up to date")


@db.command()
@option
def truncate(database_url: str | None) -> None:
    """Forget the gate and the history. For development.

    Example: ringonce db truncate
    """
    schema.truncate(_url(database_url))
    click.echo("gate and history are empty")


@db.command()
@option
def shell(database_url: str | None) -> None:
    """Open psql on the database: the machine's own, or the one that the stand brings.

    Example: ringonce db shell
    """
    psql = shutil.which("psql")
    if psql is None:
        # Here, because a production image has the command line but not what the stand needs.
        from ringonce.stand.postgres_home import wheel_folder  # noqa: PLC0415

        psql = str(wheel_folder() / "bin" / "psql")
    os.execv(psql, [psql, _url(database_url)])  # noqa: S606 - becoming psql is the whole rest of this command
