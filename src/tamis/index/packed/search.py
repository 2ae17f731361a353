"""Searches a packed store: boxes first, exact values last.

An event becomes a point on the axes (`axes`, `points_of`). Matches of plain boxes are final; candidates of special
boxes are decided by their own boxes, by the deciders, or on raw values, in this order. Loose filters are evaluated one
at a time. If a number of an event falls between two float64, every candidate is evaluated on raw values.

A search takes the snapshots of all indexes first, and works on them to the end: a writer may add axes meanwhile,
but no box of a snapshot needs an axis that came later. *Special* grows before the others, so its snapshot, taken last,
is never the narrower one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import compress

import numpy as np
import numpy.typing as npt

from tamis.algebra.evaluate import matches, matches_subscription
from tamis.index.packed.boxes.matching import Snapshot, find_order
from tamis.index.packed.deciders.combined import OneEvent, TableOfEvents
from tamis.index.packed.deciders.regions import Verdicts
from tamis.index.packed.points_of import Points, points_of
from tamis.index.packed.single_values import SingleValues, combinations, is_repeated
from tamis.index.packed.store import PackedStore
from tamis.index.packed.texts.strings import strings_of_event, strings_of_table
from tamis.index.packed.texts.text_index import TextSnapshot
from tamis.index.protocols import NO_ROWS, Lookup, MatchRows, Rows
from tamis.kernels.boxes.pairs import join_csr
from tamis.kernels.polygons.region_tests import OPEN, YES, take_met, take_met_once
from tamis.model.schema import Event
from tamis.model.tables import EventTable

__all__ = ["PackedSearch"]

#: Events and rows, int32 each.
_Pairs = tuple[npt.NDArray[np.int32], Rows]

#: Where an event lies, low and high on each axis.
_Bounds = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]

#: Candidates of an event that are decided first if one match is enough, and the factor for the next ones.
_FIRST_LOOK, _NEXT_LOOK = 8, 8
#: Matches of an event up to which Python joins them faster than NumPy.
_FEW = 64


class PackedSearch:
    """Finds the matches of events in a store; ``lookup`` gives the raw subscription of a row. Changes nothing."""

    def __init__(self, store: PackedStore, lookup: Lookup) -> None:
        self._store = store
        self._lookup = lookup

    def match(self, event: Event, point: Event | None = None) -> Rows:
        """Return the rows that match a canonical event, ascending.

        With ``point``, a combination of elements of the event, only those in whose boxes the point lies.
        """
        store = self._store
        trees, texts = store.trees.snapshot, store.texts.snapshot
        plain, special = store.plain.snapshot, store.special.snapshot
        low, high, is_point = store.axes.place(event if point is None else point, special.n_axes)
        if not is_point and point is None:
            is_set = any(type(value) is tuple for value in event.values())
            points = combinations(store.axes.with_computed(event)) if is_set else None
            if points is not None:
                return np.unique(np.concatenate([self.match(event, point) for point in points]))
        lowest = np.array(low)
        highest = lowest if high is low else np.array(high)
        rows = store.plain.match_point(lowest, highest, plain) if len(store.plain) else NO_ROWS
        if len(trees.columns.row):
            rows = np.concatenate((rows, store.trees.match(lowest, highest, trees)))
        if not is_point:
            rows = self._verified(event, rows)
        if len(store.balls):
            rows = np.concatenate((rows, store.balls.match(event)))
        if store.n_special:
            entries = store.special.match_point(lowest, highest, special) if len(store.special) else NO_ROWS
            special_rows = self._decided(event, entries, is_point=is_point) + self._ask_loose(event)
            if texts.views:
                special_rows += self._decided_texts(event, texts, (lowest, highest), is_point=is_point)
            if special_rows:
                if len(rows) + len(special_rows) <= _FEW:
                    return np.array(sorted({*rows.tolist(), *special_rows}), np.int32)
                return np.union1d(rows, special_rows).astype(np.int32)
        if len(rows):
            rows.sort()
        return rows

    def match_table(self, events: EventTable) -> MatchRows:
        """Return the rows that match each event of a table; a bad row matches nothing."""
        if is_repeated(events):
            single = SingleValues.of_events(events)
            return single.regrouped(self.match_table(single), (self.match(events.event(i)) for i in single.alone))
        store, bad = self._store, events.bad
        trees, texts = store.trees.snapshot, store.texts.snapshot
        plain, special = store.plain.snapshot, store.special.snapshot
        points = points_of(events, store.axes, special.n_axes)
        matched = MatchRows(*store.plain.match_points(points.low, points.high, plain))
        if len(store.trees):
            matched = _joined(matched, store.trees.pairs(points.low, points.high, trees))
        if bad or points.between.size:
            matched = self._settled(events, bad, points, matched)
        if store.n_special:
            matched = _joined(matched, _without(bad, self._special_pairs(events, points, special, texts)))
        if len(store.balls):
            matched = _joined(matched, _without(bad, store.balls.pairs(events)))
        return matched

    def matches_any(self, event: Event) -> bool:
        """Whether some row matches a canonical event."""
        store = self._store
        trees, texts = store.trees.snapshot, store.texts.snapshot
        plain, special = store.plain.snapshot, store.special.snapshot
        low, high, is_point = store.axes.place(event, special.n_axes)
        if not is_point:
            return bool(len(self.match(event)))
        lowest = np.array([low])
        highest = lowest if high is low else np.array([high])
        met = np.zeros(1, np.bool_)
        store.plain.meet_points(lowest, highest, met, plain)
        if met[0] or (len(store.balls) and len(store.balls.match(event))):
            return True
        if len(store.trees) and len(store.trees.match(lowest[0], highest[0], trees)):
            return True
        if not store.n_special:
            return False
        entries = store.special.match_point(lowest[0], highest[0], special)
        looks = (entries[begin:end] for begin, end in _looks(len(entries)))
        if any(self._decided(event, candidates, is_point=True) for candidates in looks):
            return True
        ends = lowest[0], highest[0]
        return bool(self._decided_texts(event, texts, ends, is_point=True) or self._ask_loose(event))

    def matches_any_of(self, events: EventTable) -> npt.NDArray[np.bool_]:
        """Return for each event of a table whether some row matches it; a bad row matches nothing."""
        if is_repeated(events):
            single = SingleValues.of_events(events)
            is_matched = np.zeros(len(events), np.bool_)
            is_matched[single.origin[self.matches_any_of(single)]] = True
            is_matched[single.alone] = [self.matches_any(events.event(i)) for i in single.alone]
            is_matched[list(events.bad)] = False
            return is_matched
        store, bad = self._store, list(events.bad)
        trees, texts = store.trees.snapshot, store.texts.snapshot
        plain, special = store.plain.snapshot, store.special.snapshot
        points = points_of(events, store.axes, special.n_axes)
        met = np.zeros(len(events), np.bool_)
        met[points.between] = met[bad] = True  # not for the boxes
        store.plain.meet_points(points.low, points.high, met, plain)
        if len(store.balls) and not met.all():
            met[store.balls.pairs(events)[0]] = True
        if len(store.trees) and not met.all():
            met[store.trees.pairs(points.low, points.high, trees)[0]] = True
        if store.n_special and not met.all():
            self._meet_special(events, points, special, met)
            self._meet_texts(events, points, texts, met)
        met[points.between] = [bool(len(self.match(events.event(i)))) for i in points.between.tolist()]
        met[bad] = False
        return met

    def _meet_special(self, events: EventTable, points: Points, snapshot: Snapshot, met: npt.NDArray[np.bool_]) -> None:
        """Set ``met`` of the events that special or loose subscriptions match; a few candidates of each come first."""
        left = np.flatnonzero(~met)
        low = points.low[left]
        high = low if points.high is points.low else points.high[left]
        starts, entries = self._store.special.match_points(low, high, snapshot)
        counts = np.diff(starts)
        event = np.repeat(left, counts)
        rank = np.arange(len(entries)) - np.repeat(starts[:-1], counts)
        for begin, end in _looks(int(counts.max(initial=0))):
            chosen = np.flatnonzero((rank >= begin) & (rank < end) & ~met[event])
            verdicts = self._verdicts(entries[chosen], event[chosen], events, points)
            met[event[chosen[verdicts == YES]]] = True
            for pair in chosen[verdicts == OPEN].tolist():
                if not met[event[pair]]:
                    values = events.event(int(event[pair]))
                    met[event[pair]] = bool(self._matching_rows(values, entries[pair : pair + 1]))

    def _meet_texts(self, events: EventTable, points: Points, texts: TextSnapshot, met: npt.NDArray[np.bool_]) -> None:
        """Set ``met`` of the events that entries of the text index or loose filters match."""
        if texts.views and not met.all():
            event, entries, sure = self._proposed(events, points, texts)
            verdicts = self._verdicts(entries, event, events, points, sure)
            met[event[verdicts == YES]] = True
            for pair in np.flatnonzero(verdicts == OPEN).tolist():
                if not met[event[pair]]:
                    values = events.event(int(event[pair]))
                    met[event[pair]] = bool(self._matching_rows(values, entries[pair : pair + 1]))
        if self._store.loose:
            for i in np.flatnonzero(~met).tolist():
                met[i] = bool(self._ask_loose(events.event(i)))

    def _proposed(
        self, events: EventTable, points: Points, texts: TextSnapshot
    ) -> tuple[npt.NDArray[np.int64], Rows, npt.NDArray[np.bool_]]:
        """Return event and entry of each pair that the text index proposes, and whether it is decided."""
        if not texts.views:
            return np.zeros(0, np.int64), NO_ROWS, np.zeros(0, np.bool_)
        proposed = texts.propose(strings_of_table(events, texts.views), (points.low, points.high))
        return proposed.rows.astype(np.int64), proposed.entries, proposed.sure

    def _decided_texts(self, event: Event, texts: TextSnapshot, ends: _Bounds, *, is_point: bool) -> list[int]:
        """Return the rows that match among the proposals of the text index; a row may come twice."""
        if not texts.views:
            return []
        low, high = ends
        proposed = texts.propose(strings_of_event(event, texts.views), (low[None], high[None]))
        sure = proposed.sure & is_point
        rows: list[int] = self._store.entries.row[proposed.entries[sure]].tolist()
        return rows + self._decided(event, proposed.entries[~sure], is_point=is_point)

    def _settled(self, events: EventTable, bad: Mapping[int, object], points: Points, plain: MatchRows) -> MatchRows:
        """Evaluate raw values for the events that are not points, and remove all matches of bad events."""
        rows_of = [plain.rows[plain.offsets[i] : plain.offsets[i + 1]] for i in range(len(events))]
        for i in points.between.tolist():
            rows_of[i] = self._verified(events.event(i), rows_of[i])
        for i in bad:
            rows_of[i] = NO_ROWS
        return MatchRows.joined(rows_of)

    def _verified(self, event: Event, rows: Rows) -> Rows:
        """Return the candidates that match on raw values; rows that were removed meanwhile are skipped."""
        candidates = ((row, self._lookup(row)) for row in rows.tolist())
        kept = [
            row
            for row, subscription in candidates
            if subscription is not None and matches_subscription(event, subscription)
        ]
        return np.array(kept, np.int32)

    def _decided(self, event: Event, entries: Rows, *, is_point: bool) -> list[int]:
        """Return the rows among special candidates that match; a row may come twice."""
        if not len(entries):
            return []
        store, all_entries = self._store, self._store.entries
        if not is_point:
            return self._matching_rows(event, entries)
        rows: list[int] = []
        if all_entries.has_exact:
            sure = all_entries.exact[entries]
            rows += all_entries.row[entries[sure]].tolist()
            entries = entries[~sure]
            if not len(entries):
                return rows
        pairs = np.zeros(len(entries), np.int64)
        verdicts = store.deciders.decide(entries, pairs, OneEvent(event), all_entries, store.axes).tolist()
        rows += compress(all_entries.row[entries].tolist(), [verdict == YES for verdict in verdicts])
        if OPEN in verdicts:
            rows += self._matching_rows(event, compress(entries.tolist(), [verdict == OPEN for verdict in verdicts]))
        return rows

    def _matching_rows(self, event: Event, entries: Iterable[int]) -> list[int]:
        """Return the rows of the entries whose raw values match; a row may come twice."""
        all_entries = self._store.entries
        return self._ask(event, [(int(all_entries.row[i]), (int(all_entries.filter[i]),)) for i in entries])

    def _ask_loose(self, event: Event) -> list[int]:
        """Return the rows of the loose filters whose raw values match."""
        return self._ask(event, list(self._store.loose.items())) if self._store.loose else []

    def _ask(self, event: Event, questions: list[tuple[int, tuple[int, ...]]]) -> list[int]:
        """Return the rows that match on raw values; a question is a row with the numbers of its filters."""
        rows = []
        for row, filters in questions:
            subscription = self._lookup(row)
            if subscription is not None and any(matches(event, subscription.filters[i]) for i in filters):
                rows.append(row)
        return rows

    def _special_pairs(self, events: EventTable, points: Points, snapshot: Snapshot, texts: TextSnapshot) -> _Pairs:
        """Return event and row of each match of special and loose subscriptions, each once, in any order."""
        order = find_order(snapshot, points.low)
        order = np.arange(len(events)) if order is None else order
        low = points.low[order]
        high = low if points.high is points.low else points.high[order]
        starts, entries = self._store.special.match_points(low, high, snapshot)
        event = np.repeat(order, np.diff(starts))
        if texts.views:
            more_events, more, sure = self._proposed(events, points, texts)
            sure = np.concatenate((np.zeros(len(entries), np.bool_), sure))
            event, entries = np.concatenate((event, more_events)), np.concatenate((entries, more))
            if self._store.entries.has_several:  # the candidates of an event must follow each other
                together = np.argsort(event, kind="stable")
                event, entries, sure = event[together], entries[together], sure[together]
            verdicts = self._verdicts(entries, event, events, points, sure)
        else:
            verdicts = self._verdicts(entries, event, events, points)
        met = self._met(verdicts, event, entries)
        is_open = np.flatnonzero(verdicts == OPEN)
        if not (self._store.loose or len(is_open)):
            return met
        return _united(met, self._matching_pairs(events, event[is_open], entries[is_open]))

    def _verdicts(
        self,
        entries: Rows,
        event: npt.NDArray[np.int64],
        events: EventTable,
        points: Points,
        sure: npt.NDArray[np.bool_] | None = None,
    ) -> Verdicts:
        """Return a verdict for each pair of event and entry: by its box where that decides, else by the deciders.

        ``sure`` are the pairs that are decided already, as far as the event is a point.
        """
        store, all_entries, values = self._store, self._store.entries, TableOfEvents(events)
        if not (points.between.size or all_entries.has_exact or sure is not None):
            return store.deciders.decide(entries, event, values, all_entries, store.axes)
        is_point = ~np.isin(event, points.between) if points.between.size else np.ones(len(event), np.bool_)
        decided = all_entries.exact[entries] if sure is None else all_entries.exact[entries] | sure
        verdicts = np.where(decided & is_point, np.int8(YES), np.int8(OPEN))
        left = np.flatnonzero((verdicts == OPEN) & is_point)
        if len(left):
            verdicts[left] = store.deciders.decide(entries[left], event[left], values, all_entries, store.axes)
        return verdicts

    def _met(self, verdicts: Verdicts, event: npt.NDArray[np.int64], entries: Rows) -> _Pairs:
        """Return event and row of each match, once."""
        rows, pairs = self._store.entries.row, np.empty((2, len(entries)), np.int32)
        if self._store.entries.has_several:
            latest = np.full(int(rows[: len(self._store.entries)].max(initial=0)) + 1, -1, np.int32)
            n = take_met_once(verdicts, event, entries, rows, latest, pairs)
        else:
            n = take_met(verdicts, event, entries, rows, pairs[0], pairs[1])
        return pairs[0, :n], pairs[1, :n]

    def _matching_pairs(self, events: EventTable, event: npt.NDArray[np.int64], entries: Rows) -> _Pairs:
        """Return the pairs, and those of loose filters, that match on raw values; a pair may occur twice."""
        order = np.argsort(event, kind="stable")
        starts = np.searchsorted(event[order], np.arange(len(events) + 1))
        pairs = [(NO_ROWS, NO_ROWS)]
        for i in range(len(events)) if self._store.loose else np.unique(event).tolist():
            own_entries = entries[order[starts[i] : starts[i + 1]]]
            values = events.event(i)
            matched = np.array([*self._matching_rows(values, own_entries), *self._ask_loose(values)], np.int32)
            pairs.append((np.full(len(matched), i, np.int32), matched))
        return np.concatenate([event_numbers for event_numbers, _ in pairs]), np.concatenate(
            [rows for _, rows in pairs]
        )


def _looks(n: int) -> Iterator[tuple[int, int]]:
    """Yield spans of n candidates, each several times as long as the one before.

    >>> list(_looks(100))
    [(0, 8), (8, 72), (72, 584)]
    """
    begin, length = 0, _FIRST_LOOK
    while begin < n:
        yield begin, begin + length
        begin, length = begin + length, _NEXT_LOOK * length


def _without(bad: Mapping[int, object], pairs: _Pairs) -> _Pairs:
    """Return the pairs whose event is not bad."""
    if not bad:
        return pairs
    good = ~np.isin(pairs[0], list(bad))
    return pairs[0][good], pairs[1][good]


def _united(a: _Pairs, b: _Pairs) -> _Pairs:
    """Return the pairs of both, each once."""
    keys = np.unique(np.concatenate([event.astype(np.int64) << 32 | rows for event, rows in (a, b)]))
    return (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)


def _joined(matched: MatchRows, pairs: _Pairs) -> MatchRows:
    """Add pairs of event and row, in any order, to the rows of their events."""
    offsets = np.empty_like(matched.offsets)
    rows = np.empty(len(matched.rows) + len(pairs[1]), np.int32)
    join_csr((matched.offsets, matched.rows), pairs, offsets, np.empty(len(offsets) - 1, np.int64), rows)
    return MatchRows(offsets, rows)
