"""CQL2-JSON documents that differ in their literals only are read once: `templates`, for what brokers tell each other.

A document is split as bytes, without decoding it: a number or string in a list is a literal, and so is the text of a
timestamp; every other string is a key, an operation or a name. That holds for JSON without spaces, as brokers write it;
in any other form a document has no template, or one of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import lt
from typing import Any, NamedTuple

import msgspec

from tamis.model.language import limits, literals
from tamis.model.language.nodes import Instant, Literal, Node
from tamis.model.language.templates.alike import filled, numbers_between, with_words
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

#: Shapes that are tried on many documents before those are split one by one.
_USUAL = 8

#: The number that marks the place of the first literal.
_FIRST_MARK = 1 << 50

_NUMBERS = frozenset[type]({int, float})

_Shape = tuple[bytes, ...]


class Document(NamedTuple):
    """The meaning of a document; ``is_canonical``: the document is the form in which its filters are written."""

    filters: tuple[Filter, ...]
    is_canonical: bool


class _ShapeForm(NamedTuple):
    """The template of a shape, whether its documents may be canonical, and the types of its literals.

    ``types`` is None if the documents cannot be columns. ``words`` stand between the literals in the text of a
    document, None if that is to be written again. ``form`` is how its filters are written, None if that varies.
    """

    template: Template
    is_canonical: bool
    types: tuple[frozenset[type], ...] | None
    words: tuple[str, ...] | None
    form: _Form | None


class _Form(NamedTuple):
    """The written form of filters: the words between the numbers, and the literal of a document for each number."""

    words: tuple[bytes, ...]
    order: tuple[int, ...]


class _Seen(NamedTuple):
    """A document whose shape has a template: its literals as text and as values."""

    shape_form: _ShapeForm
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
        self._shapes: dict[_Shape, _ShapeForm | None] = {}
        #: Shapes that were seen once.
        self._seen: set[_Shape] = set()
        #: Shapes of documents with numbers alone that came lately, the last one first.
        self._usual: list[_Shape] = []
        #: The document of the last call, because several methods are called for the same document.
        self._last: tuple[bytes, _Seen | None] = b"", None

    def find(self, data: bytes, schema: Schema) -> Document | None:
        """Return the meaning of a document; None if it must be parsed."""
        if schema is not self._schema or len(self._seen) >= _REMEMBERED:
            self._shapes.clear()
            self._seen.clear()
            self._usual.clear()
            self._last = b"", None
            self._schema = schema
        seen = self._look_at(data)
        filters = None if seen is None else seen.shape_form.template.filters(seen.values)
        if seen is None or filters is None:
            return None
        return Document(filters, seen.shape_form.is_canonical and _are_canonical(seen))

    def text(self, data: bytes, schema: Schema) -> str | None:
        """Return the canonical text of a document that some client wrote; None if it must be parsed.

        Within the limit on text no other limit depends on the literals of a document.
        """
        seen = self._look_at(data) if schema is self._schema and len(data) <= limits.TEXT.most else None
        words = None if seen is None else seen.shape_form.words
        return None if seen is None or words is None else filled_words(words, seen.values)

    def columns(
        self, documents: Sequence[bytes], rows: Iterable[int], schema: Schema
    ) -> tuple[list[TextColumns], list[int]]:
        """Return the documents in some rows as columns, and the rows that cannot be, ascending."""
        if schema is not self._schema:
            return [], list(rows)
        rows = list(rows)
        long_rows = [row for row in rows if len(documents[row]) > limits.TEXT.most]  # they have no template
        if long_rows:
            rows = [row for row in rows if len(documents[row]) <= limits.TEXT.most]
        columns, others, rest = self._columns_of_usual(documents, rows)
        others += long_rows
        shapes: dict[_Shape, tuple[list[int], list[bytes]]] = {}
        for row in rest:
            shape, written = _split(documents[row])
            of_shape = shapes.get(shape)
            if of_shape is None:
                of_shape = shapes[shape] = ([], [])
            of_shape[0].append(row)
            of_shape[1].extend(written)
        for shape, (own_rows, literals_written) in shapes.items():
            batch = _columns_of(self._shapes.get(shape), own_rows, literals_written)
            if batch is None:
                others += own_rows
            else:
                self._note_usual(shape)
                columns.append(batch[0])
                others += [own_rows[position] for position in batch[1]]
        return columns, sorted(others)

    def _columns_of_usual(
        self, documents: Sequence[bytes], rows: list[int]
    ) -> tuple[list[TextColumns], list[int], list[int]]:
        """Return the documents of usual shapes as columns, the rows among them that cannot be, and all other rows."""
        columns: list[TextColumns] = []
        unusual: list[int] = []
        for shape_form, own_rows, numbers in self._numbers_of_usual(documents, rows):
            if shape_form.types is not None:
                part, left_out = columns_of_values(shape_form.template, own_rows, numbers)
                columns.append(part)
                unusual += [own_rows[position] for position in left_out]
                taken = set(own_rows)
                rows = [row for row in rows if row not in taken]
        return columns, unusual, rows

    def _numbers_of_usual(
        self, documents: Sequence[bytes], rows: list[int]
    ) -> Iterator[tuple[_ShapeForm, list[int], list[list[Any]]]]:
        """Yield each usual shape with its rows, and their literals by place."""
        for shape in list(self._usual):
            shape_form = self._shapes.get(shape)
            if shape_form is None or len(rows) < _COLUMN:
                continue
            words = _words_of(shape)
            own_rows, others = with_words(words, documents, rows)
            numbers = numbers_between(words, [documents[row] for row in own_rows]) if len(own_rows) >= _COLUMN else None
            if numbers is not None:
                rows = others
                yield shape_form, own_rows, numbers

    def _note_usual(self, shape: _Shape) -> None:
        """Try documents of this shape first from now on, if all of their literals are numbers."""
        shape_form = self._shapes[shape]
        is_new = shape not in self._usual
        if (
            is_new
            and shape_form is not None
            and shape_form.types
            and all(kinds == _NUMBERS for kinds in shape_form.types)
        ):
            self._usual.insert(0, shape)
            del self._usual[_USUAL:]

    def written(self, data: bytes, schema: Schema) -> bytes | None:
        """Return a document in the form in which its filters are written; None if it must be parsed.

        Only documents about ranges of numbers have such a form here: no filter needs to be made for them.
        """
        seen = self._look_at(data) if schema is self._schema else None
        if seen is None or seen.shape_form.form is None or not _are_ranges(seen.shape_form.template, seen.values):
            return None
        if seen.shape_form.is_canonical and _are_canonical(seen):
            return data
        form = seen.shape_form.form
        return filled(form.words, [[seen.values[position]] for position in form.order])[0]

    def written_many(self, documents: Sequence[bytes], schema: Schema) -> dict[int, bytes]:
        """Return `written` of the documents that have a usual shape, by row; others must be parsed."""
        forms: dict[int, bytes] = {}
        rows = list(range(len(documents))) if schema is self._schema else []
        for shape_form, own_rows, numbers in self._numbers_of_usual(documents, rows):
            if shape_form.form is not None and _are_all_ranges(shape_form.template, numbers):
                written = filled(shape_form.form.words, [numbers[position] for position in shape_form.form.order])
                forms.update(zip(own_rows, written, strict=True))
        return forms

    def copy(self) -> JsonTemplates:
        """Return templates for another thread, which are the same at first; `adopt` takes over what they learn."""
        copy = JsonTemplates()
        copy._schema, copy._shapes, copy._seen = self._schema, dict(self._shapes), set(self._seen)
        copy._usual = list(self._usual)
        return copy

    def adopt(self, copy: JsonTemplates) -> None:
        """Take over the shapes that a copy has seen, unless the schema has changed meanwhile."""
        if self._schema is None:
            self._schema = copy._schema
        if copy._schema is self._schema:
            new_shapes = copy._shapes.keys() - self._shapes.keys()
            self._shapes.update((shape, copy._shapes[shape]) for shape in new_shapes)
            self._seen |= copy._seen
            for shape in new_shapes:
                if self._shapes[shape] is not None:
                    self._note_usual(shape)

    def is_repeated(self, data: bytes, schema: Schema) -> bool:
        """Record the shape of a document without a template; return whether it was seen before, so that one pays."""
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

    def add(self, data: bytes, node: Node, *, open: bool, write: Callable[[tuple[Filter, ...]], bytes]) -> None:
        """Keep the template of a document, if there is one; it was compiled under the schema last asked with.

        ``write`` gives the form in which filters are written.
        """
        shape, written = _split(data)
        schema = Schema() if self._schema is None else self._schema
        template = checked_template(Template(node, _JsonReader(list(literals_of(node))), schema, open), written)
        shape_form = None
        if template is not None:
            types = tuple(map(_types_like, literals_of(node))) if can_be_columns(template) else None
            values = template.read(written)
            filters = None if values is None else template.filters(values)
            is_canonical = _is_plain(template) and filters is not None and write(filters) == data
            shape_form = _ShapeForm(
                template, is_canonical, types, words_between(node), _form_of(template, len(written), write)
            )
        self._shapes[shape] = shape_form
        self._last = b"", None
        if shape_form is not None:
            self._note_usual(shape)

    def _look_at(self, data: bytes) -> _Seen | None:
        """Return a document whose shape has a template; None if there is none, or a literal is of another kind."""
        if data != self._last[0]:
            shape, written = _split(data)
            shape_form = self._shapes.get(shape)
            values = None if shape_form is None else shape_form.template.read(written)
            seen = None if shape_form is None or values is None else _Seen(shape_form, written, values)
            self._last = data, seen
        return self._last[1]


def _split(data: bytes) -> tuple[_Shape, list[bytes]]:
    """Return what stands between the literals of a document, and the literals."""
    pieces = _LITERAL.split(data)
    return (*pieces[::3], *pieces[1::3]), pieces[2::3]


def _words_of(shape: _Shape) -> list[bytes]:
    """Return what stands between the literals of documents of a shape."""
    n = len(shape) // 2
    return [*map(bytes.__add__, shape[:n], shape[n + 1 :]), shape[n]]


def _form_of(template: Template, n: int, write: Callable[[tuple[Filter, ...]], bytes]) -> _Form | None:
    """Return how the filters of documents with ``n`` numbers are written; None if they are not ranges of numbers."""
    marks = [_FIRST_MARK + position for position in range(n)]
    if not template.ranges or not _are_ranges(template, marks):
        return None
    filters = template.filters(marks)
    shape, written = (None, []) if filters is None else _split(write(filters))
    if shape is None or sorted(written) != [b"%d" % mark for mark in marks]:
        return None
    return _Form(tuple(_words_of(shape)), tuple(int(mark) - _FIRST_MARK for mark in written))


def _are_all_ranges(template: Template, numbers: Sequence[Sequence[Any]]) -> bool:
    """Whether `_are_ranges` holds of the literals of every document; `_form_of` has asked what is true of all."""
    pairs = [conditions for _, conditions in (template.ranges or {}).values() if len(conditions) > 1]
    return all(all(map(lt, numbers[lower.literal], numbers[upper.literal])) for lower, upper in pairs)


def _types_like(sample: Literal | None) -> frozenset[type]:
    """Return the types that JSON has for the literals that stand where ``sample`` stood."""
    return _NUMBERS if isinstance(sample, int | float) else frozenset({str})


def _columns_of(
    shape_form: _ShapeForm | None, rows: list[int], written: Sequence[bytes]
) -> tuple[TextColumns, list[int]] | None:
    """Return the columns of documents of one shape, and the positions left out; None when they cannot be columns."""
    if shape_form is None or shape_form.types is None or len(rows) < _COLUMN:
        return None
    try:
        values = msgspec.json.decode(b"[" + b",".join(written) + b"]")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    n = len(shape_form.types)
    by_literal = [values[i::n] for i in range(n)]
    if not all(types.issuperset(map(type, column)) for types, column in zip(shape_form.types, by_literal, strict=True)):
        return None
    return columns_of_values(shape_form.template, rows, by_literal)


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
    for _, conditions in (seen.shape_form.template.ranges or {}).values():
        first = values[conditions[0].literal]
        if len(conditions) > 1 and first == values[conditions[-1].literal]:
            return False
        if isinstance(first, str) and (not first or first[-1] == "\0"):  # written as a range
            return False
    return msgspec.json.encode(values)[1:-1] == b",".join(seen.written)
