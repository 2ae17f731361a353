"""CQL2-JSON documents that differ in their literals only are read once: `templates`, for what brokers tell each other.

A document is split as bytes, without decoding it: a number or string in a list is a literal, and so is the text of a
timestamp; every other string is a key, an operation or a name. That holds for JSON without spaces, as brokers write it;
in any other form a document has no template, or one of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from tamis.model.language import limits, literals
from tamis.model.language.nodes import Instant, Literal, Node
from tamis.model.language.templates.columns import TextColumns, can_be_columns, columns_of_values
from tamis.model.language.templates.texts import Template, checked_template, literals_of
from tamis.model.language.templates.wording import filled_words, words_between
from tamis.model.schema import Schema
from tamis.model.subscription import Filter
from tamis.model.types import Number, String
from tamis.model.values import INT64_MIN, UINT64_MAX, UnfitError

__all__ = ["Document", "JsonTemplates"]

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
#: What stands before a literal, and the literal. Beginning with a set of characters, the pattern is searched quickly.
_LITERAL = re.compile(
    rb'([\[,:])(?<!"op":)(?<!"property":)(' + _STRING + rb"|-?+[0-9][0-9.eE+-]*+)(?=[\],}])",
)

#: Shapes that are remembered before all are forgotten.
_REMEMBERED = 4_096

#: Documents of a shape that are worth columns.
_COLUMN = 16

_Shape = tuple[bytes, ...]


class Document(NamedTuple):
    """What a document means; ``is_canonical``: it is the form in which its filters are written."""

    filters: tuple[Filter, ...]
    is_canonical: bool


class _Known(NamedTuple):
    """The template of a shape, whether its documents may be canonical, and the types of its literals.

    ``types`` is None if the documents cannot be columns. ``words`` stand between the literals in the text of a
    document, None if that is to be written again.
    """

    template: Template
    is_canonical: bool
    types: tuple[frozenset[type], ...] | None
    words: tuple[str, ...] | None


class _Seen(NamedTuple):
    """A document of a known shape: its literals as they are written, and as they are."""

    known: _Known
    written: list[bytes]
    values: list[Literal]


class _JsonReader:
    """Reads literals of JSON, each of the type that ``sample`` has in its place."""

    def __init__(self, sample: Sequence[Literal | None]) -> None:
        self._kinds = [type(value) for value in sample]

    def read(self, written: Sequence[bytes]) -> list[Literal]:
        """Return the values of all literals of a document."""
        try:
            values = msgspec.json.decode(b"[" + b",".join(written) + b"]")
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UnfitError(str(error)) from None
        return [_checked(value, kind) for value, kind in zip(values, self._kinds, strict=True)]


def _checked(value: Any, kind: type) -> Literal:
    """Return a value that stands where one of ``kind`` stood in the sample."""
    if type(value) is float and kind in (int, float):
        return value + 0.0  # -0.0 becomes 0.0: equal numbers must have equal bits
    if type(value) is int and kind in (int, float) and INT64_MIN <= value <= UINT64_MAX:
        return value
    if type(value) is str and kind is Instant:
        return literals.instant("TIMESTAMP", value, 0)
    if type(value) is str and kind is str:
        return value
    raise UnfitError("of another type than the sample")


class JsonTemplates:
    """Templates of documents, under the schema that was last asked with."""

    def __init__(self) -> None:
        self._schema: Schema | None = None
        #: None for a shape that has no template.
        self._shapes: dict[_Shape, _Known | None] = {}
        #: Shapes that were seen once.
        self._seen: set[_Shape] = set()
        #: The document that was looked at last, for it is asked about several times.
        self._last: tuple[bytes, _Seen | None] = b"", None

    def find(self, data: bytes, schema: Schema) -> Document | None:
        """Return what a document means; None when it needs the ordinary road."""
        if schema is not self._schema or len(self._seen) >= _REMEMBERED:
            self._shapes.clear()
            self._seen.clear()
            self._last = b"", None
            self._schema = schema
        seen = self._look_at(data)
        filters = None if seen is None else seen.known.template.filters(seen.values)
        if seen is None or filters is None:
            return None
        return Document(filters, seen.known.is_canonical and _are_canonical(seen))

    def text(self, data: bytes, schema: Schema) -> str | None:
        """Return the canonical text of a document that some client wrote; None when it needs the ordinary road.

        Within the limit on text no other limit depends on the literals of a document.
        """
        seen = self._look_at(data) if schema is self._schema and len(data) <= limits.TEXT.most else None
        return None if seen is None or seen.known.words is None else filled_words(seen.known.words, seen.values)

    def columns(
        self, documents: Sequence[bytes], rows: Iterable[int], schema: Schema
    ) -> tuple[list[TextColumns], list[int]]:
        """Return the documents in some rows as columns, and the rows that cannot be, ascending."""
        if schema is not self._schema:
            return [], list(rows)
        others: list[int] = []
        shapes: dict[_Shape, tuple[list[int], list[bytes]]] = {}
        for row in rows:
            shape, written = _split(documents[row])
            of_shape = shapes.get(shape)
            if of_shape is None:
                of_shape = shapes[shape] = ([], [])
            of_shape[0].append(row)
            of_shape[1].extend(written)
        columns: list[TextColumns] = []
        for shape, (mine, literals_written) in shapes.items():
            found = _columns_of(self._shapes.get(shape), mine, literals_written)
            if found is None:
                others += mine
            else:
                columns.append(found[0])
                others += [mine[position] for position in found[1]]
        return columns, sorted(others)

    def is_written(self, data: bytes, schema: Schema) -> bool:
        """Whether a document is known to mean filters, and to be the form in which they are written.

        It says so of ranges of numbers only, which need no filter to be made.
        """
        seen = self._look_at(data) if schema is self._schema else None
        if seen is None or not seen.known.is_canonical:
            return False
        return _are_ranges(seen.known.template, seen.values) and _are_canonical(seen)

    def is_repeated(self, data: bytes, schema: Schema) -> bool:
        """Note the shape of a document that has no template; whether it was seen before, so that one will pay."""
        if schema is not self._schema:
            return False
        if len(data) > limits.TEXT.most or b',"}' in data or b'["}' in data:
            return False  # a name that ends so could be taken for the beginning of a literal
        shape, _ = _split(data)
        if shape in self._shapes:
            return False
        is_known = shape in self._seen
        self._seen.add(shape)
        return is_known

    def add(self, data: bytes, node: Node, *, open: bool, write: Callable[[], bytes]) -> None:
        """Keep the template of a document, if there is one; it was compiled under the schema last asked with.

        ``write`` gives the form in which its filters are written.
        """
        shape, written = _split(data)
        schema = Schema() if self._schema is None else self._schema
        template = checked_template(Template(node, _JsonReader(list(literals_of(node))), schema, open), written)
        known = None
        if template is not None:
            types = tuple(map(_types_like, literals_of(node))) if can_be_columns(template) else None
            known = _Known(template, _is_plain(template) and write() == data, types, words_between(node))
        self._shapes[shape] = known
        self._last = b"", None

    def _look_at(self, data: bytes) -> _Seen | None:
        """Return a document of a known shape; None if it has none, or another kind of literal."""
        if data != self._last[0]:
            shape, written = _split(data)
            known = self._shapes.get(shape)
            values = None if known is None else known.template.read(written)
            seen = None if known is None or values is None else _Seen(known, written, values)
            self._last = data, seen
        return self._last[1]


def _split(data: bytes) -> tuple[_Shape, list[bytes]]:
    """Return what stands between the literals of a document, and the literals."""
    pieces = _LITERAL.split(data)
    return (*pieces[::3], *pieces[1::3]), pieces[2::3]


def _types_like(sample: Literal | None) -> frozenset[type]:
    """Return the types that JSON has for the literals that stand where ``sample`` stood."""
    return frozenset({int, float}) if isinstance(sample, int | float) else frozenset({str})


def _columns_of(
    known: _Known | None, rows: list[int], written: Sequence[bytes]
) -> tuple[TextColumns, list[int]] | None:
    """Return the columns of documents of one shape, and the positions left out; None when they cannot be columns."""
    if known is None or known.types is None or len(rows) < _COLUMN:
        return None
    try:
        values = msgspec.json.decode(b"[" + b",".join(written) + b"]")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    n = len(known.types)
    by_literal = [values[i::n] for i in range(n)]
    if not all(types.issuperset(map(type, column)) for types, column in zip(known.types, by_literal, strict=True)):
        return None
    return columns_of_values(known.template, rows, by_literal)


def _is_plain(template: Template) -> bool:
    """Whether documents of a shape are written alike: a range of numbers or an equated string per attribute."""
    if template.ranges is None:
        return False
    return all(
        type(kind) is Number or (type(kind) is String and [op for op, _ in conditions] == ["="])
        for kind, conditions in template.ranges.values()
    )


def _are_ranges(template: Template, values: Sequence[Any]) -> bool:
    """Whether literals make a range of numbers of each attribute, whose ends differ."""
    for kind, conditions in (template.ranges or {}).values():
        ops = [op[0] for op, _ in conditions]
        if not isinstance(kind, Number) or (len(ops) > 1 and ops != [">", "<"]):
            return False
        if len(ops) > 1 and not values[conditions[0].literal] < values[conditions[1].literal]:
            return False
    return True


def _are_canonical(seen: _Seen) -> bool:
    """Whether literals are written as they would be again, and no range is a single value or the other way round."""
    values = seen.values
    for _, conditions in (seen.known.template.ranges or {}).values():
        first = values[conditions[0].literal]
        if len(conditions) > 1 and first == values[conditions[-1].literal]:
            return False
        if isinstance(first, str) and (not first or first[-1] == "\0"):  # written as a range
            return False
    return msgspec.json.encode(values)[1:-1] == b",".join(seen.written)
