"""Filters of messages: CloudEvents SQL and the SQL filters of AMQP, rewritten into the language of tamis.

Both know conditions on the attributes of a message and ``EXISTS``. CloudEvents SQL writes strings in either quotes,
with a backslash before a quote. AMQP takes the selectors of JMS, whose names may say the section of the message:
``p.subject`` and ``properties.subject`` are one attribute. Functions, XOR, division and powers are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tamis.errors import SubscriptionError
from tamis.model.language.foreign.selectors import rewritten_selector, without_division
from tamis.model.language.lexer import is_plain_name
from tamis.model.language.nodes import Node
from tamis.model.language.parse import parse

__all__ = ["read_amqp_filter", "read_cloudevents_sql"]

_CLOUDEVENTS: Final = re.compile(
    r"""(?P<string>'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")
    | \bEXISTS\s++(?P<exists>[A-Za-z_]\w*+)
    | \b(?P<xor>XOR)\b
    | (?P<unequal>!=)""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_AMQP: Final = re.compile(
    r"""(?P<string>'(?:[^']|'')*+'|"(?:[^"]|"")*+")
    | \bEXISTS\s*+\(\s*+(?P<exists>[\w.]++)\s*+\)
    | (?<![\w.])(?P<section>[ph])\.(?=\w)""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_SECTIONS: Final = {"p": "properties.", "h": "header."}


def read_cloudevents_sql(text: str) -> Node:
    r"""Return the syntax tree of a CloudEvents SQL expression.

    >>> from tamis.model.language.format import format_node
    >>> format_node(read_cloudevents_sql('type != "it\\"s" AND EXISTS subject AND source LIKE \'a\\_%\''))
    'type <> \'it"s\' AND subject IS NOT NULL AND source LIKE \'a\\_%\''
    """
    return without_division(parse(_CLOUDEVENTS.sub(_of_cloudevents(text), text)))


def read_amqp_filter(text: str) -> Node:
    r"""Return the syntax tree of an SQL filter or a selector of AMQP.

    >>> from tamis.model.language.format import format_node
    >>> format_node(read_amqp_filter("p.subject LIKE 'order!_%' ESCAPE '!' AND EXISTS(region) AND h.priority > 4"))
    "properties.subject LIKE 'order\\_%' AND region IS NOT NULL AND header.priority > 4"
    """
    return without_division(parse(rewritten_selector(_AMQP.sub(_of_amqp, text))))


def _of_cloudevents(text: str) -> Callable[[re.Match[str]], str]:
    def rewritten(match: re.Match[str]) -> str:
        if match["xor"]:
            hint = "write (a AND NOT b) OR (NOT a AND b)"
            raise SubscriptionError(f"XOR is not supported; {hint}", value="XOR", text=text, position=match.start())
        if match["string"]:
            quote, inner = match["string"][0], match["string"][1:-1]
            # The space keeps two strings apart: side by side, they would be one with a quote in it.
            return "'" + inner.replace(f"\\{quote}", quote).replace("'", "''") + "' "
        return _present(match["exists"]) if match["exists"] else "<>"

    return rewritten


def _of_amqp(match: re.Match[str]) -> str:
    if match["string"]:
        return match["string"]
    if match["exists"]:
        section, dot, name = match["exists"].partition(".")
        return _present(_SECTIONS[section.lower()] + name if dot and section.lower() in _SECTIONS else match["exists"])
    return _SECTIONS[match["section"].lower()]


def _present(name: str) -> str:
    return f"{name} IS NOT NULL" if is_plain_name(name) else f'"{name}" IS NOT NULL'
