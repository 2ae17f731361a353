"""Interests: the filters of clients and neighbours as they were written, compiled when they are needed.

A broker with a million subscriptions needs few of them compiled: its index has their bounds as columns, and a delivery
needs only ids. `ReadInterests` reads many documents at once, before any of them is applied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from tamis.engine.text_batch import LazyBatch
from tamis.model.language.templates.columns import TextColumns
from tamis.model.subscription import Filter, Subscription, SubscriptionId
from tamis.node.content import Content, ReadDocuments

__all__ = ["Interest", "Interests", "NamedInterest", "ReadInterests"]

#: From this number of interests in one namespace on, they are read as columns.
MANY = 32


class Interest:
    """A filter as CQL2-JSON; ``content`` reads it."""

    __slots__ = ("content", "document", "expires", "id", "namespace")

    def __init__(
        self, id: SubscriptionId, document: bytes, namespace: str, content: Content, expires: int | None = None
    ) -> None:
        self.id = id
        self.document = document
        self.namespace = namespace
        self.expires = expires
        self.content = content

    @property
    def filters(self) -> tuple[Filter, ...]:
        """The compiled document."""
        return self.content.read_filter(self.document)

    def says_same(self, other: Interest) -> bool:
        """Whether another interest asks for the same events."""
        if self.namespace != other.namespace:
            return False
        return self.document == other.document or self.filters == other.filters

    def named(self, id: SubscriptionId) -> Subscription:
        """Return the subscription under another id."""
        return Subscription(id, self.filters, None, self.namespace, self.expires)


class Interests(dict[str, Interest]):
    """The interests of one client or neighbour by key; ``bytes`` are those of their documents.

    ``namespaces`` counts them by namespace.

    >>> interests = Interests()
    >>> interests.put("k", Interest("k", b"true", "default", Content()))
    >>> interests.put("k", Interest("k", b"false", "default", Content()))
    >>> interests.bytes, dict(interests.namespaces)
    (5, {'default': 1})
    >>> interests.take("k").document, interests.bytes, dict(interests.namespaces)
    (b'false', 0, {})
    """

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self.namespaces: Counter[str] = Counter()

    def put(self, key: str, interest: Interest) -> None:
        """Add or replace an interest."""
        if key in self:
            self._count(self[key], -1)
        self._count(interest, 1)
        self[key] = interest

    def take(self, key: str) -> Interest:
        """Remove an interest and return it; KeyError if there is none."""
        interest = self.pop(key)
        self._count(interest, -1)
        return interest

    def _count(self, interest: Interest, n: int) -> None:
        self.bytes += n * len(interest.document)
        self.namespaces[interest.namespace] += n
        if not self.namespaces[interest.namespace]:
            del self.namespaces[interest.namespace]


class NamedInterest(NamedTuple):
    """An interest under its key; its filters are read on each access."""

    id: SubscriptionId
    interest: Interest

    @property
    def filters(self) -> tuple[Filter, ...]:
        """The filters of the interest."""
        return self.interest.filters

    @property
    def namespace(self) -> str:
        """The namespace of the interest."""
        return self.interest.namespace

    def made(self) -> Subscription:
        """Return the subscription."""
        return self.interest.named(self.id)


class _Read(NamedTuple):
    """The interests of one namespace that were read together: ``{position: row}``, and the read documents."""

    rows: Mapping[int, int]
    documents: ReadDocuments


class ReadInterests:
    """Many interests, read together; `batch` returns those that enter an index.

    Attributes
    ----------
    bad
        Why interests cannot be read, by position.
    """

    def __init__(self, interests: Sequence[Interest]) -> None:
        self._interests = interests
        self.bad: dict[int, Exception] = {}
        #: The read documents of namespaces with many interests.
        self._spaces: dict[str, _Read] = {}
        positions: dict[str, list[int]] = {}
        for position, interest in enumerate(interests):
            positions.setdefault(interest.namespace, []).append(position)
        for namespace, positions_of_name in positions.items():
            if len(positions_of_name) < MANY or not self._read_columns(namespace, positions_of_name):
                self._read_each(positions_of_name)

    def _read_columns(self, namespace: str, positions: list[int]) -> bool:
        content = self._interests[positions[0]].content
        try:
            documents = content.read_filters([self._interests[position].document for position in positions])
        except Exception:  # `_read_each` finds the wrong document
            return False
        self._spaces[namespace] = _Read(dict(zip(positions, range(len(positions)), strict=True)), documents)
        return True

    def _read_each(self, positions: list[int]) -> None:
        for position in positions:
            interest = self._interests[position]
            try:
                interest.content.read_filter(interest.document)
            except Exception as error:  # nothing is applied yet, so this document is at fault
                self.bad[position] = error

    def named(self, position: int, key: str) -> Subscription:
        """Return an interest as a subscription under its key."""
        return self._interests[position].named(key)

    def batch(self, namespace: str, chosen: Sequence[tuple[int, str]]) -> LazyBatch | None:
        """Return interests of a namespace, chosen by position and key, as columns; None if they are few."""
        read = self._spaces.get(namespace)
        if read is None or len(chosen) < MANY:
            return None
        rows = [read.rows[position] for position, _ in chosen]
        positions = np.full(len(read.rows), -1, np.int32)
        positions[rows] = np.arange(len(rows))
        columns = [_chosen(columns, positions) for columns in read.documents.columns]
        others = [
            (int(positions[row]), Subscription(chosen[positions[row]][1], filters, None, namespace))
            for row, filters in read.documents.others.items()
            if positions[row] >= 0
        ]
        keyed = [(key, self._interests[position]) for position, key in chosen]
        return LazyBatch(
            [key for key, _ in keyed],
            [part for part in columns if len(part.rows)],
            sorted(others),
            partial(_make, keyed),
        )


def _chosen(columns: TextColumns, position_of_row: np.ndarray[tuple[int], np.dtype[np.int32]]) -> TextColumns:
    """Return the rows of columns that have a position (0 or more), in the order of their positions."""
    positions = position_of_row[columns.rows]
    if (positions >= 0).all() and (positions[:-1] < positions[1:]).all():
        return columns._replace(rows=positions)
    chosen_rows = np.flatnonzero(positions >= 0)
    chosen_rows = chosen_rows[np.argsort(positions[chosen_rows])]
    return columns.take(chosen_rows, positions[chosen_rows])


def _make(interests: Sequence[tuple[str, Interest]], row: int) -> Subscription:
    key, interest = interests[row]
    return interest.named(key)
