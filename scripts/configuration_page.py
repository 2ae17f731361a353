"""Write the tables of keys in docs/configuration.md from the classes of a broker's configuration.

    python scripts/configuration_page.py

Names, types and defaults are those of the fields; the meaning is the comment ``#:`` above each field, and a field
without one stops the script. What people wrote around the two marks stays. A test demands that the page is current.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tamis.routing.webhooks.rules import WebhookRules
from tamis.runtime.broker import config

PAGE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
BEGIN = "<!-- written by scripts/configuration_page.py from runtime/broker/config.py: do not edit by hand -->"
END = "<!-- end of what scripts/configuration_page.py writes -->"

#: The tables of the file, and the class of each.
TABLES: dict[str, type[msgspec.Struct]] = {
    "The broker": config.BrokerConfig,
    "`[[links]]`": config.LinkConfig,
    "`[[tenants]]`": config.TenantConfig,
    "`[webhooks]`": WebhookRules,
    "`[auth.jwt]`": config.JwtConfig,
    "`[auth.jwt.claims]`": config.ClaimsConfig,
}
#: The words for an annotation, as TOML has them.
TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "tuple[str, ...]": "array of strings",
    "dict[str, bool | int | float | str]": "table",
}
MEBIBYTE = 1024 * 1024


class Key(NamedTuple):
    """A key as it is written in a class: its annotation, and the comment above it."""

    name: str
    annotation: str
    meaning: str


def table() -> str:
    """Return one Markdown table for each table of the file."""
    lines = []
    for title, struct in TABLES.items():
        lines += [f"## {title}", "", "| key | type | default | meaning |", "|---|---|---|---|"]
        defaults = {field.name: field for field in msgspec.structs.fields(struct)}
        lines += [
            f"| `{key.name}` | {type_words(key.annotation)} | {default_words(defaults[key.name])} | {key.meaning} |"
            for key in keys_of(struct)
            if not is_table(key.annotation)
        ]
        lines.append("")
    return "\n".join(lines)


def page(text: str) -> str:
    """Return a page with the current tables between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n{END}{after}"


def keys_of(struct: type[msgspec.Struct]) -> list[Key]:
    """Return the keys of a class, its own before those that it inherits."""
    return [key for base in struct.__mro__ if "__annotations__" in vars(base) for key in _declared(base)]


def is_table(annotation: str) -> bool:
    """Whether a key is a table of its own, which has a section of its own on the page."""
    return annotation.endswith(("Config | None", "Config", "Config, ...]", "WebhookRules"))


def type_words(annotation: str) -> str:
    """Return an annotation in the words of TOML."""
    if annotation.startswith("Literal["):
        return " or ".join(f"`{value}`" for value in re.findall(r"'(\w+)'", annotation))
    return TYPES[annotation]


def default_words(field: Any) -> str:
    """Return the default of a field as TOML has it; "required" without one."""
    if field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT:
        return "required"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    match value:
        case bool():
            return f"`{str(value).lower()}`"
        case int() if value and value % MEBIBYTE == 0:
            return f"`{value}` ({value // MEBIBYTE:,} MiB)"
        case float() if value.is_integer():
            return f"`{int(value)}`"
        case "" | () | {}:
            return "none"
        case str():
            return f'`"{value}"`'
        case tuple():
            return "`[" + ", ".join(f'"{element}"' for element in value) + "]`"
    return f"`{value}`"


def _declared(struct: type[msgspec.Struct]) -> Iterator[Key]:
    source = inspect.getsource(struct)
    lines = source.splitlines()
    [body] = ast.parse(source).body
    assert isinstance(body, ast.ClassDef)
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            words = list[str]()
            for line in reversed(lines[: node.lineno - 1]):
                if not line.startswith("    #: "):
                    break
                words.insert(0, line.removeprefix("    #: "))
            if not words:
                raise SystemExit(f"{struct.__name__}.{node.target.id} has no comment that says what it means")
            meaning = re.sub(r"``([^`]*)``", r"`\1`", " ".join(words)).replace("|", "\\|")
            yield Key(node.target.id, ast.unparse(node.annotation), meaning)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
