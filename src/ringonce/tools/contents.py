"""The command line's table of contents: commands under headings, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Contents(click.Group):
    """A group whose help lists its commands under headings.

    Args:
        sections: the commands, in order, by heading.
        attributes: see `click.Group`.
    """

    def __init__(self, *, sections: Mapping[str, Sequence[click.Command]] | None = None, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._sections = dict(sections or {})
        for commands in self._sections.values():
            for command in commands:
                self.add_command(command)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Without options, which are --help and --version, and without blank lines between the sections."""
        formatter.write_usage(ctx.command_path, "COMMAND [OPTIONS]...")
        formatter.write(f"{self.help}\n")
        width = max((len(command.name or "") for command in self.commands.values()), default=0)
        room = formatter.width - width - 4
        for heading, commands in self._sections.items():
            formatter.write(f"{heading}\n")
            for command in commands:
                formatter.write(f"  {command.name:<{width}}  {command.get_short_help_str(room)}\n")
