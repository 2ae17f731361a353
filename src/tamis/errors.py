"""Every error tamis raises on purpose, on one page.

An error is its fields; the message is built from them in ``__str__``. ``args`` are the constructor's
arguments, so that each error survives a pickle on its way back from a Spark worker. Catching
``TamisError`` catches everything a caller can cause; ``InvariantError`` is a bug in tamis.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

__all__ = [
    "ConnectionLostError",
    "DiskFullError",
    "DuplicateSubscriptionError",
    "EventError",
    "InvariantError",
    "LeaseLostError",
    "LimitError",
    "LocalProtocolError",
    "MissingExtraError",
    "ModelError",
    "ProtocolError",
    "RefusedError",
    "RemoteProtocolError",
    "SchemaError",
    "SnapshotError",
    "StoreError",
    "SubscriptionError",
    "SubscriptionSyntaxError",
    "TableError",
    "TamisError",
    "UnknownSubscriptionError",
    "WeakGuaranteeError",
    "list_names",
    "shorten",
]

#: A value is quoted in a message up to this many characters; a polygon may have ten thousand points.
QUOTED = 80

#: Names that a message lists, and characters of each.
MOST_LISTED, LISTED = 10, 60


def shorten(value: object) -> str:
    """Quote a value for a message: its repr, cut in the middle when it is long.

    >>> shorten("x" * 100)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx ... xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'"
    """
    text = str(value) if hasattr(value, "geom_type") else repr(value)
    half = QUOTED // 2 - 2
    return text if len(text) <= QUOTED else f"{text[:half]} ... {text[-half:]}"


def list_names(names: Iterable[str]) -> str:
    """List names for a message: the first ten, each cut when it is long, and how many more there are.

    >>> list_names(["price", "size"]), list_names([])
    ('price, size', 'none')
    >>> list_names([f"a{i}" for i in range(1_000)])
    'a0, a1, a2, a3, a4, a5, a6, a7, a8, a9 and 990 more'
    """
    all_names = list(names)
    shown = [name if len(name) <= LISTED else f"{name[: LISTED - 3]}..." for name in all_names[:MOST_LISTED]]
    more = f" and {len(all_names) - MOST_LISTED:,} more" if len(all_names) > MOST_LISTED else ""
    return f"{', '.join(shown) or 'none'}{more}"


class TamisError(Exception):
    """The root: every error that tamis raises on purpose."""


class ModelError(TamisError, ValueError):
    """A schema, a subscription, an event or a table is invalid."""


class SchemaError(ModelError):
    """A schema is invalid, or two sources give different types for an attribute."""

    def __init__(self, attribute: str, problem: str) -> None:
        super().__init__(attribute, problem)
        self.attribute = attribute
        self.problem = problem

    def __str__(self) -> str:
        return f"attribute {shorten(self.attribute)}: {self.problem}" if self.attribute else self.problem


class SubscriptionError(ModelError):
    """A subscription has correct syntax but an invalid meaning: a wrong type, an unknown attribute, a bad polygon.

    ``position`` is the offset of the culprit in ``text`` when the subscription came as text.
    """

    def __init__(
        self,
        problem: str,
        attribute: str | None = None,
        value: object = None,
        text: str | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(problem, attribute, value, text, position)
        self.problem = problem
        self.attribute = attribute
        self.value = value
        self.text = text
        self.position = position
        #: The text as it was probably meant, ready to copy.
        self.corrected: str | None = None

    def __str__(self) -> str:
        if self.text is None or self.position is None:
            return self.problem
        return f"{self.problem}, at {_describe_position(self.text, self.position)}{_proposal(self.corrected)}"


class SubscriptionSyntaxError(ModelError):
    """A subscription text has a syntax error at ``position``; ``expected`` describes what is allowed there.

    >>> print(SubscriptionSyntaxError("price >< 10", 7, "a number"))
    expected a number at column 8
      price >< 10
             ^
    """

    def __init__(self, text: str, position: int, expected: str) -> None:
        super().__init__(text, position, expected)
        self.text = text
        self.position = position
        self.expected = expected
        #: The text as it was probably meant, ready to copy.
        self.corrected: str | None = None

    def __str__(self) -> str:
        return f"expected {self.expected} at {_describe_position(self.text, self.position)}{_proposal(self.corrected)}"


def _proposal(corrected: str | None) -> str:
    return "" if corrected is None else f"\nwrite:\n  {corrected}"


class LimitError(ModelError):
    """The ``amount`` of something in an input, ``what`` names it, exceeds the largest accepted value, ``limit``.

    ``remedy`` says what to do next where that is not obvious.
    """

    def __init__(self, what: str, amount: int, limit: int, remedy: str = "") -> None:
        super().__init__(what, amount, limit, remedy)
        self.what = what
        self.amount = amount
        self.limit = limit
        self.remedy = remedy

    def __getattr__(self, name: str) -> int:
        """Return ``amount`` for ``given``, its name in 0.1."""
        if name != "given":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        warnings.warn("LimitError.given is deprecated: read LimitError.amount", DeprecationWarning, stacklevel=2)
        return self.amount

    def __str__(self) -> str:
        problem = f"{self.what}: {self.amount:,} is more than the {self.limit:,} accepted"
        return f"{problem}; {self.remedy}" if self.remedy else problem


class EventError(ModelError):
    """An event has a value that its attribute does not allow; ``row`` is its row in a table, if any."""

    def __init__(self, attribute: str, value: object, problem: str, row: int | None = None) -> None:
        super().__init__(attribute, value, problem, row)
        self.attribute = attribute
        self.value = value
        self.problem = problem
        self.row = row

    def __str__(self) -> str:
        positions = [] if self.row is None else [f"row {self.row}"]
        positions += [f"attribute {shorten(self.attribute)}"] if self.attribute else []
        prefix = f"{', '.join(positions)}: " if positions else ""
        return f"{prefix}{self.problem} (got {shorten(self.value)})"


class TableError(ModelError):
    """A bulk table is wrong at ``row`` (or as a whole, when ``row`` is None)."""

    def __init__(self, problem: str, row: int | None = None) -> None:
        super().__init__(problem, row)
        self.problem = problem
        self.row = row

    def __str__(self) -> str:
        return self.problem if self.row is None else f"row {self.row}: {self.problem}"


class UnknownSubscriptionError(TamisError, KeyError):
    """There is no subscription with this id."""

    def __init__(self, subscription_id: int | str) -> None:
        super().__init__(subscription_id)
        self.subscription_id = subscription_id

    def __str__(self) -> str:
        return f"there is no subscription {self.subscription_id!r}"


class DuplicateSubscriptionError(TamisError):
    """The id is taken; unsubscribe it first or choose another."""

    def __init__(self, subscription_id: int | str) -> None:
        super().__init__(subscription_id)
        self.subscription_id = subscription_id

    def __str__(self) -> str:
        return f"subscription {self.subscription_id!r} exists already; unsubscribe it first or choose another id"


class SnapshotError(TamisError):
    """A saved engine cannot be read or written; nothing on disk was changed."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class SnapshotConflictError(SnapshotError):
    """Another writer published a version first; the version that was built on the previous one was not published."""


class WeakGuaranteeError(TamisError):
    """A structure has a weaker guarantee than its user needs, so that events could be lost."""

    def __init__(self, needed: str, actual: str) -> None:
        super().__init__(needed, actual)
        self.needed = needed
        self.actual = actual

    def __str__(self) -> str:
        return f"expected a structure that is {self.needed}, got a structure that is only {self.actual}"


class ProtocolError(TamisError):
    """A message broke the protocol between brokers and clients; the subclass says which side sent it."""


class LocalProtocolError(ProtocolError):
    """The caller asked for something that the rules do not allow here."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


class RemoteProtocolError(ProtocolError):
    """The other end of ``link`` sent a forbidden message; no part of it was applied."""

    def __init__(self, link: str, problem: str) -> None:
        super().__init__(link, problem)
        self.link = link
        self.problem = problem

    def __str__(self) -> str:
        return f"link {self.link!r}: {self.problem}"


class RefusedError(TamisError):
    """A broker refused a request: ``code`` is an HTTP status for programs, ``reason`` a text for users."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class ConnectionLostError(TamisError):
    """A broker at ``url`` cannot be reached, or the connection to it was lost."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(url, problem)
        self.url = url
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.url}: {self.problem}"


class StoreError(TamisError):
    """A broker's store is damaged or cannot be written: the process stops, and nothing on disk was changed."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class LeaseLostError(StoreError):
    """Another broker has taken over the store of this one: the process stops, and has written nothing since."""


class DiskFullError(TamisError):
    """A broker's disk is full; nothing was written, and the broker continues when there is space again."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: the disk is full"


class MissingExtraError(TamisError, ImportError):
    """A feature needs a package, or an extra of a package, that is not installed."""

    def __init__(self, feature: str, extra: str, package: str = "tamis") -> None:
        super().__init__(feature, extra, package)
        self.feature = feature
        self.extra = extra
        self.package = package

    def __str__(self) -> str:
        extra = f"[{self.extra}]" if self.extra else ""
        return f"{self.feature} needs an optional part: pip install '{self.package}{extra}'"


class ExtensionError(TamisError, ImportError):
    """A package that adds a command to ``tamis`` cannot be imported."""

    def __init__(self, command: str, package: str, cause: str) -> None:
        super().__init__(command, package, cause)
        self.command = command
        self.package = package
        self.cause = cause

    def __str__(self) -> str:
        return f"tamis {self.command} comes from {self.package}, which cannot be imported: {self.cause}"


class InvariantError(TamisError):
    """A bug in tamis, not in your input: please report it with the events that led to it."""

    def __init__(self, broken: str, story: Sequence[str] = ()) -> None:
        super().__init__(broken, story)
        self.broken = broken
        self.story = story

    def __str__(self) -> str:
        steps = "".join(f"\n  {number}. {step}" for number, step in enumerate(self.story, 1))
        return f"invariant broken: {self.broken}{steps}"


def _describe_position(text: str, position: int) -> str:
    """Describe a position in a text: the column, the line with it, and a caret below."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : len(text) if end < 0 else end]
    column = position - start
    number = text.count("\n", 0, position) + 1
    shown, caret = _window(line.expandtabs(1), column)
    label = f"column {column + 1}" if number == 1 else f"line {number}, column {column + 1}"
    return f"{label}\n  {shown}\n  {' ' * caret}^"


def _window(line: str, column: int, width: int = 100) -> tuple[str, int]:
    """Cut a long line around a column; return the part and the position of the column in it."""
    if len(line) <= width:
        return line, column
    start = max(0, min(column - width // 2, len(line) - width))
    cut = line[start : start + width]
    head, tail = ("..." if start else ""), ("..." if start + width < len(line) else "")
    return head + cut + tail, column - start + len(head)
