"""`ringonce completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ringonce.errors import ConfigurationError

PROGRAMS = ("ringonce", "router", "sender")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes a shell complete our commands.

    It covers ringonce, router and sender. For bash and zsh, in ~/.bashrc or ~/.zshrc; for fish, in a file under
    ~/.config/fish/completions.

    Example: source <(ringonce completion bash)
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click knows the three of them
    try:
        # The shell asks the program itself, by this variable, what may come next.
        scripts = [kind(click.Command(name), {}, name, f"_{name.upper()}_COMPLETE").source() for name in PROGRAMS]
    except OSError as error:
        raise ConfigurationError([f"{shell} is not there ({error.strerror})"]) from error
    click.echo("\n".join(scripts))
