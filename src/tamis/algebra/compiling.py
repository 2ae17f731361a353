"""Compiles a source to filters; the library, brokers and Spark all use these functions.

`compile_source` parses, learns types if it may, binds, and simplifies regions that are compared with each other;
`compile_filters` does the same for a tree that is already parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tamis.algebra.simplify import simplify_regions
from tamis.model.language.bind import learn_from_node
from tamis.model.language.compiler import compile_node, source_text
from tamis.model.language.nodes import Node
from tamis.model.language.parse import parse
from tamis.model.schema import Schema
from tamis.model.subscription import Filter

__all__ = ["CompiledSource", "compile_filters", "compile_source"]


class CompiledSource(NamedTuple):
    """A compiled source: its filters, the schema extended by the types it taught, and its text."""

    filters: tuple[Filter, ...]
    schema: Schema
    text: str


def compile_source(source: str | Mapping[str, Any], schema: Schema, *, learns: bool = False) -> CompiledSource:
    """Compile CQL2 text or JSON under a schema, which it extends if it ``learns``.

    >>> compile_source("price < 100", Schema(), learns=True).schema
    Schema({'price': Number(lo=None, hi=None)})
    """
    node = parse(source)
    text = source_text(source, node)
    if learns:
        schema = learn_from_node(schema, node)
    return CompiledSource(compile_filters(node, schema, text, open=learns), schema, text)


def compile_filters(node: Node, schema: Schema, text: str | None = None, *, open: bool = False) -> tuple[Filter, ...]:
    """Return the filters that a tree means under a schema; ``open`` as in `tamis.model.language.bind.bind`."""
    return simplify_regions(compile_node(node, schema, text, open=open))
