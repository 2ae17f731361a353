"""Files of strict JSON (`tamis.model.strict_json`, promise S14): objects line by line, and arrays of objects."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import NoReturn

from tamis.errors import LimitError, TableError
from tamis.files.batches import TextRow
from tamis.files.text import MAX_LINE, chunks, lines, shown_name
from tamis.model.strict_json import (
    BOUNDS,
    DECODER,
    MAX_DEPTH,
    Bound,
    Object,
    StrictJsonError,
    checked_object,
    count_marks,
    lower,
    read_object,
    read_value,
)

__all__ = ["Object", "array_objects", "json_items", "line_items", "read_object", "read_value"]

_BLANKS = re.compile(r"[ \t\r\n]*")


def array_objects(text: str, longest: int) -> Iterator[Object]:
    """Yield the objects of a text that is a JSON array, each parsed on demand.

    Raises ValueError if the text is not such an array, and for an object of more than ``longest`` characters, of which
    no more than that is parsed.

    >>> list(array_objects('[{"mag": 4.5}, {"mag": 6}]', 1_000))
    [{'mag': 4.5}, {'mag': 6}]
    """
    window, offset = _Window(text, longest), _after_blanks(text, 0)
    if not text.startswith("[", offset):
        raise ValueError("expected a JSON array of objects")
    offset = _after_blanks(text, offset + 1)
    mark = "]" if text.startswith("]", offset) else ","
    while mark == ",":
        value, offset = window.read_object(offset)
        yield value
        offset = _after_blanks(text, offset)
        mark = text[offset : offset + 1]
        offset = _after_blanks(text, offset + 1) if mark == "," else offset
    if mark != "]":
        raise ValueError(f"not JSON: expected ',' or ']' at column {offset + 1}")
    if (offset := _after_blanks(text, offset + 1)) < len(text):
        raise ValueError(f"not JSON: extra data at column {offset + 1}")


class _Window:
    """The part of a long text that the parser may see: ``longest`` characters, moved along as objects are read."""

    def __init__(self, text: str, longest: int) -> None:
        self._text = text
        self._longest = longest
        self._start, self._part = 0, ""
        #: Why the part ends where it does, if that is before `longest`.
        self._bound: Bound | None = None
        self._is_exact = False
        self._move(0)

    def read_object(self, offset: int) -> tuple[Object, int]:
        """Return the object at an offset of the text, and the offset after it."""
        try:
            value, end = self._decode(offset)
        except json.JSONDecodeError as error:
            column = self._start + error.pos + 1
            why = "" if self._has_all else f"longer than {self._longest:,} characters, or "
            why = f"{self._bound}, or " if self._bound is not None else why
            raise ValueError(f"{why}not JSON: {lower(error.msg)} at column {column}") from None
        except RecursionError:
            raise ValueError(f"nested more than {MAX_DEPTH} deep") from None
        if not isinstance(value, dict):
            raise ValueError("expected a JSON array of objects")
        return checked_object(value), self._start + end

    def _decode(self, offset: int) -> tuple[object, int]:
        """Return the value at an offset of the text, and the offset after it in this part."""
        try:
            return DECODER.raw_decode(self._part, offset - self._start)
        except json.JSONDecodeError:
            if self._has_all:
                raise
            if offset != self._start:
                self._move(offset)
                return self._decode(offset)
            if self._bound is None or self._is_exact:
                raise
            length = len(self._part)
            self._move(offset, is_exact=True)  # most of the marks may be in strings
            if len(self._part) == length:
                raise
        return self._decode(offset)

    @property
    def _has_all(self) -> bool:
        return self._start + len(self._part) >= len(self._text)

    @property
    def _seen(self) -> str:
        return self._text[self._start : self._start + self._longest]

    def _move(self, offset: int, *, is_exact: bool = False) -> None:
        """Begin at an offset; the part ends where there would be more lists or keys than one object may have."""
        self._start, self._bound, self._is_exact = offset, None, is_exact
        self._part = self._seen
        for bound in BOUNDS:
            if len(self._part) > bound.most and count_marks(self._part, bound.marks) > bound.most:
                part = _cut_outside_strings(self._part, bound) if is_exact else _cut(self._part, bound)
                self._bound = bound if len(part) < len(self._part) else self._bound
                self._part = part


def _cut_outside_strings(text: str, bound: Bound) -> str:
    """Return the beginning of a text with as many marks outside of strings as a bound allows."""
    plain = text.replace("\\\\", "__").replace('\\"', "__")  # what may escape a quotation mark; as long as before
    count, position = 0, 0
    for number, part in enumerate(plain.split('"')):
        marks = 0 if number % 2 else count_marks(part, bound.marks)
        if count + marks > bound.most:
            end = [index for index, character in enumerate(part) if character in bound.marks][bound.most - count]
            return text[: position + end]
        count += marks
        position += len(part) + 1
    return text


def _cut(text: str, bound: Bound) -> str:
    """Return the beginning of a text with at most as many marks as a bound allows."""
    low, high, seen = 0, len(text), 0
    while high - low > 1:
        middle = (low + high) // 2
        marks = count_marks(text, bound.marks, low, middle)
        if seen + marks <= bound.most:
            low, seen = middle, seen + marks
        else:
            high = middle
    return text[:low]


def line_items(path: str) -> Iterator[TextRow[Object]]:
    """Yield one object per line that is not blank; what cannot be read is an item with its problem."""
    for number, line in lines(path):
        if not line.strip():
            continue
        try:
            yield TextRow(number, len(line), read_object(line.decode("utf-8")))
        except UnicodeDecodeError as error:
            yield TextRow(number, len(line), None, f"not UTF-8 text ({error.reason})")
        except ValueError as error:
            yield TextRow(number, len(line), None, str(error))


def json_items(path: str) -> Iterator[TextRow[Object]]:
    """Yield the objects of a JSON array, or objects that follow one another; bad syntax ends it with an error."""
    text = _Text(path)
    is_array = text.next_is("[")
    closed = not is_array
    first = True
    while not text.is_over():
        if is_array and text.next_is("]"):
            closed = True
            break
        if is_array and not first and not text.next_is(","):
            text.fail("expected ',' or ']' between two objects")
        first = False
        line, size, value = text.read_object()
        yield TextRow(line, size, value)
    if not closed:
        text.fail("the array has no end: ']' is missing")
    if not text.is_over():
        text.fail("there is more after the end of the array")


class _Text:
    """A text that is read object by object and never in memory as a whole."""

    def __init__(self, path: str) -> None:
        self._name = shown_name(path)
        self._chunks = chunks(path)
        self._decode = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0
        self._line = 1

    def is_over(self) -> bool:
        """Whether only white space is left."""
        while True:
            self._move(_BLANKS.match(self._text, self._at).end())  # type: ignore[union-attr]
            if self._at < len(self._text):
                return False
            if not self._fill():
                return True

    def next_is(self, mark: str) -> bool:
        """Consume the next character after white space if it is this one; return whether it was."""
        if self.is_over() or self._text[self._at] != mark:
            return False
        self._move(self._at + 1)
        return True

    def read_object(self) -> tuple[int, int, Object]:
        """Read the next object; return its line, its length and the object."""
        if self.is_over():
            self.fail("expected an object")
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if len(self._text) - self._at <= MAX_LINE and self._fill():
                    continue
                self._move(error.pos)
                self.fail(f"not JSON: {lower(error.msg)}")
            except (RecursionError, StrictJsonError) as error:
                self.fail(str(error) if isinstance(error, StrictJsonError) else f"nested more than {MAX_DEPTH} deep")
            break
        line, size = self._line, end - self._at
        if size > MAX_LINE:
            raise LimitError(f"{self._name}, line {line}: characters of one object", size, MAX_LINE)
        try:
            checked = checked_object(value)
        except ValueError as error:
            self.fail(str(error))
        self._move(end)
        return line, size, checked

    def fail(self, problem: str) -> NoReturn:
        """Raise the error that names the file and the line."""
        raise TableError(f"{self._name}, line {self._line}: {problem}")

    def _move(self, offset: int) -> None:
        self._line += self._text.count("\n", self._at, offset)
        self._at = offset

    def _fill(self) -> bool:
        chunk = next(self._chunks, None)
        try:
            more = self._decode.decode(chunk or b"", final=chunk is None)
        except UnicodeDecodeError as error:
            self.fail(f"not UTF-8 text ({error.reason})")
        self._text, self._at = self._text[self._at :] + more, 0
        return chunk is not None


def _after_blanks(text: str, offset: int) -> int:
    return _BLANKS.match(text, offset).end()  # type: ignore[union-attr]
