"""The templates that mails are made from: plain text and, where there is one, HTML; Jinja2 in its sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import jinja2
from jinja2 import meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ringonce.channels.port import Unsendable

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLES: Final = frozenset({"title", "body", "payload", "unsubscribe"})
"""What a template may speak of; `payload` is the object in `payload_json`."""

PACKAGED: Final = Path(__file__).with_name("mail_templates")


class Rendered(NamedTuple):
    """The texts of one mail."""

    plain: str
    html: str | None


class Templates:
    """One template in a folder, looked at once.

    `faults` are everything that is wrong with it; with any it cannot be used.

    Args:
        folder: where `<name>.txt` and `<name>.html` are; the package's own where it is empty.
        name: of the template.
    """

    def __init__(self, folder: str, name: str) -> None:
        self.faults: list[str] = []
        self._seen: set[str] = set()
        self._environment = ImmutableSandboxedEnvironment(
            loader=jinja2.FileSystemLoader(Path(folder) if folder else PACKAGED),
            autoescape=lambda file: file is not None and file.endswith(".html"),
            undefined=jinja2.StrictUndefined,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        if folder and not Path(folder).is_dir():
            self.faults.append(f"there is no folder {folder!r}")
            return
        self._plain = self._load(f"{name}.txt", required=True)
        self._html = self._load(f"{name}.html", required=False)

    def _load(self, file: str, *, required: bool) -> jinja2.Template | None:
        assert self._environment.loader is not None  # noqa: S101 - given above
        try:
            source, _, _ = self._environment.loader.get_source(self._environment, file)
        except jinja2.TemplateNotFound:
            if required:
                self.faults.append(f"there is no template {file}")
            return None
        except (OSError, UnicodeDecodeError) as error:
            self.faults.append(f"{file} cannot be read: {type(error).__name__}")
            return None
        try:
            self._look_at(file, source)
            return self._environment.get_template(file)
        except jinja2.TemplateSyntaxError as error:
            self.faults.append(f"{file}, line {error.lineno}: {error.message}")
        except jinja2.TemplateError as error:
            self.faults.append(f"{file}: {type(error).__name__}")
        return None

    def _look_at(self, file: str, source: str) -> None:
        """Find what would only come to light with the first mail: other templates, and unknown variables."""
        parsed = self._environment.parse(source)
        there_are = ", ".join(sorted(VARIABLES))
        unknown = sorted(meta.find_undeclared_variables(parsed) - VARIABLES)
        self.faults += [f"{file} speaks of {name!r}; there are {there_are}" for name in unknown]
        for other in meta.find_referenced_templates(parsed):
            if other is None:
                self.faults.append(f"{file} includes a template whose name is not written down in it")
            elif other not in self._seen:
                self._seen.add(other)
                self._load(other, required=True)

    def render(self, values: Mapping[str, Any]) -> Rendered:
        """The texts for these variables.

        Raises:
            Unsendable: the template asks for something that the payload does not have, or cannot do with what it has.
        """
        assert self._plain is not None  # noqa: S101 - a template with faults is not used
        try:
            return Rendered(self._plain.render(values), None if self._html is None else self._html.render(values))
        except jinja2.UndefinedError:
            raise Unsendable("the template asks for something that the notification's payload does not have") from None
        except Exception as error:  # noqa: BLE001 - see below
            # A template is a program, and the payload its input: whatever it raises is about the two, not about us.
            raise Unsendable(f"the template cannot be rendered: {type(error).__name__}") from None
