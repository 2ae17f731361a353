"""What a client or a neighbour asks for, as it was written: filters are made of it when they are needed.

A broker with a million subscriptions needs few of their filters: its index has their bounds as columns, and a delivery
needs ids. `ReadInterests` reads many documents at once, before any of them is applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from tamis.engine.text_batch import LazyBatch
from tamis.model.language.templates.columns import TextColumns
from tamis.model.subscription import Filter, Subscription, SubscriptionId
from tamis.node.content import Content, ReadDocuments

__all__ = ["Interest", "NamedInterest", "ReadInterests"]

#: Interests in one namespace from which on they are read as columns.
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
        """What the document means."""
        return self.content.read_filter(self.document)

    def says_same(self, other: Interest) -> bool:
        """Whether another interest asks for the same events."""
        if self.namespace != other.namespace:
            return False
        return self.document == other.document or self.filters == other.filters

    def named(self, id: SubscriptionId) -> Subscription:
        """Return the subscription under another id."""
        return Subscription(id, self.filters, None, self.namespace, self.expires)


class NamedInterest(NamedTuple):
    """An interest under its key; its filters are read whenever they are asked for."""

    id: SubscriptionId
    interest: Interest

    @property
    def filters(self) -> tuple[Filter, ...]:
        """What the interest asks for."""
        return self.interest.filters

    @property
    def namespace(self) -> str:
        """The namespace of the interest."""
        return self.interest.namespace

    def made(self) -> Subscription:
        """Return the subscription."""
        return self.interest.named(self.id)


class _Read(NamedTuple):
    """The interests of one namespace that were read together: where each stands, and what they mean."""

    rows: Mapping[int, int]
    documents: ReadDocuments


class ReadInterests:
    """Many interests, read together; `batch` gives those that are to enter an index.

    Attributes
    ----------
    bad
        Why interests cannot be read, by position.
    """

    def __init__(self, interests: Sequence[Interest]) -> None:
        self._interests = interests
        self.bad: dict[int, Exception] = {}
        #: ``{namespace: what was read}``, of the namespaces with many.
        self._spaces: dict[str, _Read] = {}
        positions: dict[str, list[int]] = {}
        for position, interest in enumerate(interests):
            positions.setdefault(interest.namespace, []).append(position)
        for namespace, mine in positions.items():
            if len(mine) < MANY or not self._read_columns(namespace, mine):
                self._read_each(mine)

    def _read_columns(self, namespace: str, positions: list[int]) -> bool:
        content = self._interests[positions[0]].content
        try:
            documents = content.read_filters([self._interests[position].document for position in positions])
        except Exception:  # it is found out below which document is wrong
            return False
        self._spaces[namespace] = _Read(dict(zip(positions, range(len(positions)), strict=True)), documents)
        return True

    def _read_each(self, positions: list[int]) -> None:
        for position in positions:
            interest = self._interests[position]
            try:
                interest.content.read_filter(interest.document)
            except Exception as error:  # nothing is applied yet, so whatever is wrong is wrong with this document
                self.bad[position] = error

    def named(self, position: int, key: str) -> Subscription:
        """Return an interest as a subscription under its key."""
        return self._interests[position].named(key)

    def batch(self, namespace: str, chosen: Sequence[tuple[int, str]]) -> LazyBatch | None:
        """Return interests of a namespace, each its position and its key, as columns; None: they are few."""
        read = self._spaces.get(namespace)
        if read is None or len(chosen) < MANY:
            return None
        rows = [read.rows[position] for position, _ in chosen]
        places = np.full(len(read.rows), -1, np.int32)
        places[rows] = np.arange(len(rows))
        columns = [_chosen(columns, places) for columns in read.documents.columns]
        others = [
            (int(places[row]), Subscription(chosen[places[row]][1], filters, None, namespace))
            for row, filters in read.documents.others.items()
            if places[row] >= 0
        ]
        made = [(key, self._interests[position]) for position, key in chosen]
        return LazyBatch(
            [key for key, _ in made], [part for part in columns if len(part.rows)], sorted(others), partial(_make, made)
        )


def _chosen(columns: TextColumns, places: np.ndarray[tuple[int], np.dtype[np.int32]]) -> TextColumns:
    """Return the rows of columns that have a place, in the order of their places."""
    theirs = places[columns.rows]
    if (theirs >= 0).all() and (theirs[:-1] < theirs[1:]).all():
        return columns._replace(rows=theirs)
    kept = np.flatnonzero(theirs >= 0)
    kept = kept[np.argsort(theirs[kept])]
    return columns.take(kept, theirs[kept])


def _make(interests: Sequence[tuple[str, Interest]], row: int) -> Subscription:
    key, interest = interests[row]
    return interest.named(key)
