"""Engine: the library's front door.

An engine owns the schema, the map from what users call a subscription to the rows of the indexes, and one
matcher per namespace. One thread may write while many read: a writer holds the lock, readers take none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from tamis.algebra.compiling import compile_source
from tamis.algebra.compiling_texts import TextTemplates, compile_texts
from tamis.algebra.explain import Explanation, explain
from tamis.engine import snapshot
from tamis.engine.ids import Ids, sorted_ids
from tamis.engine.matches import Matches
from tamis.engine.merging import BackgroundMerge
from tamis.engine.namespace import Namespace
from tamis.engine.shelf import Shelf
from tamis.engine.stored import Record
from tamis.engine.text_batch import compiled_subscriptions, paused_collection, text_batches
from tamis.engine.threads import match_parts
from tamis.engine.unreachable import Unreachable
from tamis.errors import ModelError, SubscriptionError, TableError, shorten
from tamis.index.protocols import Guarantee, demand
from tamis.index.registry import DEFAULT_MATCHER, MATCHERS
from tamis.model.language.unbind import format_filters
from tamis.model.schema import Event, Schema, learn_from_event, presence_of
from tamis.model.strict_json import MAX_EVENT, read_event
from tamis.model.subscription import DEFAULT_NAMESPACE, Subscription, SubscriptionId
from tamis.model.tables import EventTable, SubscriptionTable, checked_id, learn_from_table
from tamis.model.types import AttributeType, Number, Vector
from tamis.model.values import UnfitError, moment

__all__ = ["Engine"]

#: Texts of a table up to which each becomes an object at once.
FEW_TEXTS = 128


def _now() -> int:
    return time.time_ns() // 1000


class Engine:
    """Subscriptions in, events in, matching ids out.

    Parameters
    ----------
    schema
        The attributes events may carry. Without one the engine learns types from the literals of
        subscriptions and the first values of events.
    matcher
        The structure that finds matches; every one gives the same answers.
    clock
        Returns microseconds since 1970 UTC; decides which subscriptions have expired.

    Examples
    --------
    >>> engine = Engine()
    >>> engine.subscribe("symbol = 'IBM' AND price < 100", id="alice")
    'alice'
    >>> engine.match({"symbol": "IBM", "price": 99.5})
    ['alice']
    """

    def __init__(
        self, schema: Schema | None = None, matcher: str = DEFAULT_MATCHER, *, clock: Callable[[], int] = _now
    ) -> None:
        if schema is not None and not isinstance(schema, Schema):
            raise ModelError(f"expected a tamis.Schema, not {type(schema).__name__}")
        if matcher not in MATCHERS:
            raise ModelError(f"unknown matcher {matcher!r}; choose one of {', '.join(sorted(MATCHERS))}")
        self._matcher = matcher
        self._schema = Schema() if schema is None else schema
        self._learns = schema is None
        self._unreachable = Unreachable()
        self._clock = clock
        self._shelves: dict[str, Shelf] = {}
        self._next_id = 0
        self._lock = threading.RLock()
        self._merge = BackgroundMerge(self._lock)
        #: Keeps the files of a loaded version from being pruned.
        self._lease: snapshot.Lease | None = None

    @property
    def schema(self) -> Schema:
        """The attributes known so far."""
        return self._schema

    def __len__(self) -> int:
        self._expire()
        return sum(map(len, self._shelves.values()))

    def __contains__(self, id: object) -> bool:
        """Whether a subscription of the default namespace is called so."""
        try:
            return checked_id(id) in self._living(DEFAULT_NAMESPACE).ids
        except TableError:
            return False

    def __iter__(self) -> Iterator[Subscription]:
        """Yield every live subscription, by namespace in order of arrival."""
        self._expire()
        for name in sorted(self._shelves):
            yield from self._shelves[name]

    def subscribe(
        self,
        source: str | Mapping[str, Any],
        *,
        id: SubscriptionId | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        expires: object = None,
        metadata: Mapping[str, str] | None = None,
    ) -> SubscriptionId:
        """Add a subscription given as CQL2 text or JSON; return its id (a number when none is given).

        ``expires`` is a moment (aware datetime, RFC 3339 text or int microseconds UTC). Raises
        `SubscriptionSyntaxError`, `SubscriptionError` or `DuplicateSubscriptionError`; then nothing changed.
        """
        with self._lock:
            chosen = None if id is None else checked_id(id)
            end = None if expires is None else _checked_moment(expires)
            _check_words(namespace, metadata or {})
            schema, one = self._compile(source, chosen, namespace, end, metadata)
            self._admit([one])
            self._schema = schema
            return one.id

    def subscribe_table(self, table: SubscriptionTable) -> Sequence[SubscriptionId]:
        """Add all subscriptions of a table, or none: an error names the first bad row. Return their ids."""
        if not isinstance(table, SubscriptionTable):
            raise TableError(f"expected a tamis.SubscriptionTable, not {type(table).__name__}")
        with self._lock:
            schema, first_id = self._schema, self._next_id
            try:
                if table.texts is not None:
                    with paused_collection():
                        return self._subscribe_texts(table)
                return self._subscribe_boxes(table, DEFAULT_NAMESPACE)
            except BaseException:
                self._schema, self._next_id = schema, first_id
                raise

    def subscribe_boxes(
        self,
        names: Sequence[str],
        lo: Any,
        hi: Any,
        ids: Sequence[SubscriptionId] | None = None,
        *,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Sequence[SubscriptionId]:
        """Add closed boxes, float64[n, d]; an infinite side is unconstrained. Return their ids."""
        _check_words(namespace, {})
        table = SubscriptionTable.from_boxes(names, lo, hi, ids)
        with self._lock:
            return self._subscribe_boxes(table, namespace)

    def subscribe_balls(
        self, name: str, centers: Any, radii: Any, ids: Sequence[SubscriptionId] | None = None
    ) -> Sequence[SubscriptionId]:
        """Add closed balls of one vector attribute: centers float64[n, d], radii float64[n]. Return their ids."""
        return self.subscribe_table(SubscriptionTable.from_balls(name, centers, radii, ids))

    def unsubscribe(self, id: SubscriptionId, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Remove a subscription; `UnknownSubscriptionError` when there is none."""
        with self._lock:
            self._living(namespace).ids.row(checked_id(id))  # raises when there is none
            self._shelves[namespace].remove(checked_id(id))

    def match(self, event: Mapping[str, Any], *, namespace: str = DEFAULT_NAMESPACE) -> list[SubscriptionId]:
        """Return the sorted ids of the subscriptions an event matches."""
        space = self._living(namespace)
        direct = None if space.roles.direct is None else space.roles.direct.direct.find(self._schema)
        rows = None if direct is None else direct.match(event)
        if rows is not None:
            return sorted_ids(space.ids, rows)
        canonical = self._canonical(event)
        return space.ids.sorted_of(space.matcher.match(canonical))

    def match_json(
        self, event: bytes | bytearray | memoryview | str, *, namespace: str = DEFAULT_NAMESPACE
    ) -> list[SubscriptionId]:
        """Return the sorted ids of the subscriptions that an event matches, given as a JSON object of up to 1 MiB.

        JSON is strict: `EventError` for NaN, numbers beyond float64, and duplicate keys.

        >>> engine = Engine()
        >>> engine.subscribe("price < 100", id="alice")
        'alice'
        >>> engine.match_json(b'{"symbol": "IBM", "price": 99.5}')
        ['alice']
        """
        if type(event) is bytes and len(event) <= MAX_EVENT:
            space = self._living(namespace)
            direct = None if space.roles.direct is None else space.roles.direct.direct.find(self._schema)
            rows = None if direct is None else direct.match_json(event)
            if rows is not None:
                return sorted_ids(space.ids, rows)
        return self.match(read_event(event), namespace=namespace)

    def match_table(
        self, events: Any, *, namespace: str = DEFAULT_NAMESPACE, on_bad: str = "raise", threads: int = 1
    ) -> Matches:
        """Match every row of a pyarrow table, a pandas frame, a dict of arrays or an `EventTable`.

        A value that does not fit raises `EventError` with its row, or, with ``on_bad="skip"``, makes its
        row match nothing. Several ``threads`` share a large table; the answer is the same.
        """
        if on_bad not in ("raise", "skip"):
            raise ModelError(f"on_bad must be 'raise' or 'skip', not {on_bad!r}")
        if isinstance(events, EventTable):
            table = events
            table.check_types(self._schema)
        else:
            table = EventTable.of(events, self._known(events, learn_from_table), presence=self._learns)
        if on_bad == "raise" and table.bad:
            raise next(iter(table.bad.values()))
        space = self._living(namespace)
        return Matches(*match_parts(space.matcher.match_table, table, threads), space.ids)

    def explain(
        self, event: Mapping[str, Any], id: SubscriptionId, *, namespace: str = DEFAULT_NAMESPACE
    ) -> Explanation:
        """Say why an event matches a subscription or does not, condition by condition."""
        schema = self._known(event, learn_from_event)
        one = self._living(namespace).subscription(checked_id(id))
        text = one.text if one.text is not None else format_filters(one.filters, schema)
        return explain(self._canonical(event), event, text, schema, one.id)

    def namespaces(self) -> list[Namespace]:
        """Return the namespaces, in the order in which they came."""
        return [shelf.now for shelf in self._shelves.values()]

    def subscription(self, id: SubscriptionId, *, namespace: str = DEFAULT_NAMESPACE) -> Subscription:
        """Return a subscription by its id."""
        return self._living(namespace).subscription(checked_id(id))

    def wait(self) -> None:
        """Wait until no merge is running in the background. Answers are the same with or without."""
        self._merge.wait()

    def statistics(self) -> dict[str, Any]:
        """Return counts: subscriptions, namespaces, attributes, and what each matcher says of itself."""
        self._expire()
        return {
            "subscriptions": len(self),
            "attributes": len(self._schema),
            "unreachable_objects": list(self._unreachable.names),
            "matcher": self._matcher,
            "namespaces": {
                name: {"subscriptions": len(shelf), **shelf.now.matcher.statistics().details}
                for name, shelf in sorted(self._shelves.items())
            },
        }

    def save(self, directory: str | Path, *, key: bytes | None = None) -> Path | str:
        """Write a new version into a directory or an object store, atomically; return it. Nothing is overwritten.

        A URI (``s3://bucket/rules``, ``gs://``, ``az://``) needs the extra ``cloud``; credentials come from the
        environment. The answer is a path for a directory and a URI for a store.

        With a ``key`` of at least 32 bytes, or one in the file that ``TAMIS_SNAPSHOT_KEY_FILE`` names, it is signed.
        """
        with self._lock:
            self._expire()
            state = snapshot.State(self._schema, self._learns, self._matcher, self._next_id)
            return snapshot.write(directory, state, self.namespaces(), key)

    @classmethod
    def load(
        cls,
        directory: str | Path,
        *,
        matcher: str | None = None,
        clock: Callable[[], int] = _now,
        key: bytes | None = None,
    ) -> Self:
        """Open the newest version in a directory or object store, or a version itself (``DIRECTORY/v000003``).

        Boxes and texts stay in the files, mapped, and are shared by all processes that open them. Raises
        `SnapshotError` when there is none that can be trusted: its files are damaged, its arrays are not what an
        engine could have written, or, with a key as in `save`, it is not signed with that key.
        """
        version = snapshot.opened(snapshot.version_at(directory))
        lease = snapshot.Lease(version)
        return cls.open(snapshot.read(version, key=key), lease, matcher=matcher, clock=clock)

    @classmethod
    def open(
        cls,
        saved: snapshot.Saved,
        lease: snapshot.Lease,
        *,
        matcher: str | None = None,
        clock: Callable[[], int] = _now,
    ) -> Self:
        """Return an engine on what was read from a snapshot; see `load`."""
        state = saved.state
        engine = cls(None if state.learns else state.schema, matcher or state.matcher, clock=clock)
        engine._schema, engine._next_id, engine._lease = state.schema, state.next_id, lease
        for name, parts in saved.by_namespace().items():
            snapshot.restore(parts, engine._shelf(name).now, partial(engine._compile_record, name, TextTemplates()))
        return engine

    def _compile_record(self, namespace: str, templates: TextTemplates, record: Record) -> Subscription:
        text, id, expires, metadata = record
        known = self._schema
        filters, schema, _ = templates.compile(text, known, learns=self._learns)
        if schema is not known:  # what was saved with a filter knows all its attributes
            raise ModelError(f"it names an attribute that the saved schema lacks: {shorten(text)}")
        return Subscription(id, filters, text, namespace, expires, metadata)

    def _compile(
        self,
        source: str | Mapping[str, Any],
        id: SubscriptionId | None,
        namespace: str,
        expires: int | None,
        metadata: Mapping[str, str] | None,
    ) -> tuple[Schema, Subscription]:
        """Return the schema after learning from a subscription, and the subscription."""
        filters, schema, text = compile_source(source, self._schema, learns=self._learns)
        chosen = self._fresh_id(namespace) if id is None else id
        return schema, Subscription(chosen, filters, text, namespace, expires, dict(metadata or {}))

    def _subscribe_texts(self, table: SubscriptionTable) -> Sequence[SubscriptionId]:
        assert table.texts is not None
        roles = [self._living(name).roles for name in dict.fromkeys(map(table.namespace, range(len(table))))]
        columns = len(table) > FEW_TEXTS and all(one.columns is not None for one in roles)
        compiled = compile_texts(table.texts, self._schema, learns=self._learns, columns=columns)
        ids = self._row_ids(table)
        if compiled.bad is not None:
            row, error = compiled.bad
            raise TableError(f"subscription {ids[row]!r}: {error}", row) from error
        self._schema = compiled.schema
        if columns:
            additions: list[_Addition] = []
            for name, batch in text_batches(table, ids, compiled).items():
                compile = partial(self._compile_record, name, TextTemplates())
                additions.append((self._shelf(name), partial(Shelf.add_texts, batch=batch, compile=compile), batch.ids))
            _add_all(additions)
        else:
            self._admit([subscription for _, subscription in compiled_subscriptions(table, ids, compiled)])
        return ids

    def _subscribe_boxes(self, table: SubscriptionTable, namespace: str) -> Sequence[SubscriptionId]:
        kind = Number() if table.centers is None else Vector(table.centers.shape[1])
        schema = self._with_attributes(table.names, kind)
        shelf = self._shelf(namespace)
        ids = table.ids if table.ids is not None else self._fresh_ids(len(table), shelf.now.ids)
        shelf.add_boxes(table, ids)
        self._schema = schema
        return ids

    def _fresh_ids(self, n: int, known: Ids) -> range:
        """Return numbers that are all free: where one is taken, the counter goes on behind it."""
        while (taken := known.last_taken(range(self._next_id, self._next_id + n))) is not None:
            self._next_id = taken + 1
        self._next_id += n
        return range(self._next_id - n, self._next_id)

    def _row_ids(self, table: SubscriptionTable) -> Sequence[SubscriptionId]:
        """Return the id of each row; one that has none gets a number that is free."""
        if table.ids is None and table.namespaces is None:
            known, numbers = self._living(DEFAULT_NAMESPACE).ids, range(self._next_id, self._next_id + len(table))
            if known.last_taken(numbers) is None:
                self._next_id = numbers.stop
                return numbers
        ids: Sequence[SubscriptionId | None] = [None] * len(table) if table.ids is None else table.ids
        taken = {id for id in ids if isinstance(id, int)}
        return [self._fresh_id(table.namespace(row), taken) if id is None else id for row, id in enumerate(ids)]

    def _with_attributes(self, names: Sequence[str], kind: AttributeType) -> Schema:
        """Return the schema in which these names are of a type, as boxes and balls need."""
        for name in names:
            if name not in self._schema and not self._learns:
                raise SubscriptionError(f"attribute {name!r} is unknown; known are {', '.join(self._schema)}", name)
        return self._schema.extended(dict.fromkeys(names, kind), "a box" if kind == Number() else "a ball")

    def _admit(self, added: Sequence[Subscription]) -> None:
        """Add all subscriptions or none."""
        spaces: dict[str, list[Subscription]] = {}
        for one in added:
            spaces.setdefault(one.namespace, []).append(one)
        for name in spaces:
            self._living(name)  # an id that has expired is free
        _add_all(
            [
                (self._shelf(name), partial(Shelf.add, subscriptions=some), [one.id for one in some])
                for name, some in spaces.items()
            ]
        )

    def _fresh_id(self, namespace: str, taken: set[int] | frozenset[int] = frozenset()) -> int:
        shelf = self._shelves.get(namespace)
        known: Container[int] = shelf.now.ids if shelf is not None else ()
        while self._next_id in known or self._next_id in taken:
            self._next_id += 1
        self._next_id += 1
        return self._next_id - 1

    def _living(self, namespace: str) -> Namespace:
        """Return a namespace without what has expired; an empty one when nothing was subscribed to in it."""
        shelf = self._shelves.get(namespace)
        if shelf is None:
            return Namespace(namespace, MATCHERS[self._matcher])
        self._expire_in(shelf)
        return shelf.now

    def _shelf(self, name: str) -> Shelf:
        """Return the shelf of a namespace to write to; it is made when it is first written to."""
        if name not in self._shelves:
            shelf = Shelf(name, MATCHERS[self._matcher], self._merge)
            demand(Guarantee.COMPLETE, shelf.now.matcher.guarantee)
            self._shelves[name] = shelf
        return self._shelves[name]

    def _canonical(self, event: Mapping[str, Any]) -> Event:
        """Return the canonical event; in a learning engine a value of no type is at least there (not NULL)."""
        if self._schema.knows_all_of(event):
            return self._schema.event(event)
        schema = self._known(event, learn_from_event)
        canonical = schema.event(event)
        self._unreachable.look(event, schema)
        return canonical | presence_of(schema, event) if self._learns else canonical

    def _known(self, source: Any, learn: Callable[[Schema, Any], Schema]) -> Schema:
        """Return the schema for an event or a table, extended by what it shows when the engine learns."""
        known = self._schema
        if not self._learns or learn(known, source) is known:
            return known
        with self._lock:
            self._schema = learn(self._schema, source)
            return self._schema

    def _expire(self) -> None:
        """Remove what is due in every namespace."""
        for shelf in list(self._shelves.values()):
            self._expire_in(shelf)

    def _expire_in(self, shelf: Shelf) -> None:
        if shelf.now.next_end is not None:
            shelf.expire(self._clock())


#: A shelf, what adds to it, and the ids that it adds.
_Addition = tuple[Shelf, Callable[[Shelf], None], Sequence[SubscriptionId]]


def _add_all(additions: Sequence[_Addition]) -> None:
    """Add to each shelf what its call adds; when one raises, nothing stays."""
    done: list[tuple[Shelf, Sequence[SubscriptionId]]] = []
    try:
        for shelf, add, ids in additions:
            add(shelf)
            done.append((shelf, ids))
    except BaseException:
        for shelf, ids in done:
            for id in ids:
                shelf.remove(id)
        raise


def _check_words(namespace: object, metadata: Mapping[Any, Any]) -> None:
    """Refuse what could be kept but not saved."""
    if not isinstance(namespace, str):
        raise ModelError(f"a namespace must be a string, not {namespace!r}")
    if not isinstance(metadata, Mapping) or not all(isinstance(one, str) for pair in metadata.items() for one in pair):
        raise ModelError(f"metadata must be a mapping from strings to strings, not {metadata!r}")


def _checked_moment(value: object) -> int:
    """Return the end of a subscription in microseconds UTC, or raise `ModelError`."""
    try:
        return moment(value)
    except UnfitError as error:
        raise ModelError(f"expires: {error}") from None
