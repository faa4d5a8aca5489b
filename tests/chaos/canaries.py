"""I7, what nobody may read: strings that are planted in the input and the settings, and searched for afterwards."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final, LiteralString
from urllib.parse import quote

import psycopg
from psycopg import sql
from tests.chaos.checker import Verdict, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

CHUNK: Final = 1024 * 1024

_COLUMNS: Final[LiteralString] = """
SELECT table_schema, table_name, column_name FROM information_schema.columns
JOIN information_schema.tables USING (table_catalog, table_schema, table_name)
WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')
AND data_type IN ('text', 'character varying', 'character', 'json', 'jsonb', 'xml', 'bytea', 'ARRAY', 'USER-DEFINED')
ORDER BY 1, 2, 3
"""
_FOUND: Final[LiteralString] = """
SELECT DISTINCT form FROM {table}, unnest(%s::text[]) AS form WHERE strpos({column}::text, form) > 0
"""


@dataclass(frozen=True, slots=True)
class Canaries:
    """What is planted. `secret` is the channels'; the others are for the load to put where their names say."""

    token: str
    phone: str
    secret: str
    payload: str

    @classmethod
    def plant(cls, seed: int, secret: str) -> Canaries:
        """The canaries of a run; the same ones for the same seed."""
        chance = random.Random(f"canaries {seed}")  # noqa: S311 - only to be found again
        digits = f"{chance.randrange(10**9):09}"
        return cls(
            f"tok{chance.getrandbits(96):024x}", f"+49171{digits}", secret, f"payload{chance.getrandbits(96):024x}"
        )

    def target(self, url: str) -> str:
        """A webhook's target with the token in its query."""
        return f"{url}?token={self.token}"

    def text(self) -> str:
        """A title or a body with the phone number in it."""
        return f"Call {self.phone} back"

    def payload_json(self) -> str:
        """A payload."""
        return json.dumps({"note": self.payload})

    def forms(self) -> dict[str, str]:
        """Every spelling in which one may be written down, and the name of the canary."""
        found = {}
        for name, text in ((one.name, getattr(self, one.name)) for one in fields(self)):
            spellings = (text, quote(text, safe=""), json.dumps(text)[1:-1], text.encode().hex())
            found.update(dict.fromkeys(spellings, name))
        return found


@dataclass(frozen=True, slots=True)
class Search:
    """What a search came to. A finding names the place and the canary, and does not repeat it."""

    what: str
    places: int
    findings: tuple[str, ...] = field(default=())


def in_files(canaries: Canaries, files: Iterable[Path]) -> Search:
    """Search log files, whatever their size."""
    forms = {form.encode(): name for form, name in canaries.forms().items()}
    places, findings = 0, set()
    for path in files:
        places += 1
        for chunk in _chunks(path, max(map(len, forms)) - 1):
            findings |= {f"{path.name}: {name}" for form, name in forms.items() if form in chunk}
    return Search("log files", places, tuple(sorted(findings)))


def _chunks(path: Path, overlap: int) -> Iterator[bytes]:
    """A file in pieces, each beginning with the end of the one before: nothing hides at a seam."""
    tail = b""
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            yield tail + piece
            tail = (tail + piece)[-overlap:]


def in_tables(canaries: Canaries, url: str) -> Search:
    """Search every column of every table that can hold text."""
    forms = canaries.forms()
    findings = set()
    with psycopg.connect(url) as connection:
        columns = connection.execute(_COLUMNS).fetchall()
        for schema, table, column in columns:
            query = sql.SQL(_FOUND).format(table=sql.Identifier(schema, table), column=sql.Identifier(column))
            found = connection.execute(query, [list(forms)]).fetchall()
            findings |= {f"{table}.{column}: {forms[form]}" for (form,) in found}
    return Search("columns", len(columns), tuple(sorted(findings)))


def unseen(*searches: Search) -> Verdict:
    """I7: none was found; and each search had somewhere to look."""
    findings = [finding for search in searches for finding in search.findings]
    text = ", ".join(f"{search.places} {search.what}" for search in searches) + f": canaries found in {len(findings)}"
    ok = bool(searches) and not findings and all(search.places for search in searches)
    return Verdict("I7", ok, text + (f": {named(findings)}" if findings else ""))
