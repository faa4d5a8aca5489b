"""What the commands say about themselves."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import pytest
from click.testing import CliRunner

from ringonce.cli import SECTIONS, ringonce
from ringonce.tools.roles import router_command, sender_command

if TYPE_CHECKING:
    from collections.abc import Iterator

SCREEN: Final = (80, 24)
BIN: Final = Path(sys.executable).parent


def leaves(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by what is typed."""
    if isinstance(command, click.Group):
        for word, inner in command.commands.items():
            yield from leaves(inner, f"{name} {word}")
    else:
        yield name, command


def text_of(command: click.Command) -> str:
    """What it says, without the source's indentation."""
    return f"{inspect.cleandoc(command.help or '')}\n{command.epilog or ''}"


COMMANDS: Final = dict(
    [*leaves(ringonce, "ringonce"), *leaves(router_command, "router"), *leaves(sender_command, "sender")]
)


def test_the_contents_fit_a_screen() -> None:
    """With the prompt below them."""
    width, height = SCREEN
    lines = CliRunner().invoke(ringonce, ["--help"]).output.splitlines()
    assert len(lines) < height
    assert max(map(len, lines)) < width


def test_the_contents_name_every_command_under_its_heading() -> None:
    lines = CliRunner().invoke(ringonce, ["--help"]).output.splitlines()
    shown: dict[str, list[str]] = {}
    for line in lines[2:]:
        if line in SECTIONS:
            shown[line] = []
        elif line.startswith("  "):
            next(reversed(shown.values())).append(line.split()[0])
    assert shown == {heading: [command.name for command in commands] for heading, commands in SECTIONS.items()}
    assert {name for names in shown.values() for name in names} == set(ringonce.commands)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    """In a sentence, with an example of how it is typed."""
    command = COMMANDS[name]
    assert text_of(command).partition("\n")[0].endswith(".")
    examples = re.findall(r"^Example: (.+)$", text_of(command), flags=re.MULTILINE)
    assert len(examples) == 1
    assert name in examples[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_can_be_typed(name: str) -> None:
    """Its options and arguments are such as the command takes."""
    command = COMMANDS[name]
    typed = re.search(rf"Example: .*{name}([^)\n]*)", text_of(command))
    assert typed
    command.make_context(name, typed[1].split())


@pytest.mark.parametrize("program", ["ringonce", "router", "sender"])
def test_the_version(program: str) -> None:
    done = subprocess.run([BIN / program, "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"{program}, version {metadata.version('ringonce')}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete(shell: str) -> None:
    """All three programs."""
    done = CliRunner().invoke(ringonce, ["completion", shell])
    assert done.exit_code == 0
    for program in ("RINGONCE", "ROUTER", "SENDER"):
        assert f"_{program}_COMPLETE" in done.output


def test_bash_completes() -> None:
    """What it sources works, and completes commands, subcommands, options and their values."""
    script = """
    source <(ringonce completion bash)
    complete -p ringonce router sender
    ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _${1}_completion "$1"; echo "${COMPREPLY[@]}"; }
    ask ringonce topi; ask ringonce topics cr; ask sender --mode ''; ask ringonce config --role router
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script],  # noqa: S607 - whichever bash the person has
        env={"PATH": f"{BIN}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert [line.split()[-1] for line in lines[:3]] == ["ringonce", "router", "sender"]
    assert lines[3:] == ["topics", "create", "send dlq", "router router-dlq"]
