"""The engine, the main class of the library.

An engine owns the schema, the map from the ids of subscriptions to the rows of the indexes, and one matcher per
namespace. One thread may write while many read: a writer holds the lock, readers need none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from tamis.algebra.compiling import compile_source
from tamis.algebra.compiling_texts import TextReader, TextTemplates, compile_texts
from tamis.algebra.explain import Explanation, explain
from tamis.engine import snapshot
from tamis.engine.ids import Ids, sorted_ids
from tamis.engine.matches import Matches
from tamis.engine.merging import BackgroundMerge
from tamis.engine.namespace import Namespace
from tamis.engine.shelf import Shelf
from tamis.engine.stored import Record
from tamis.engine.text_batch import compiled_subscriptions, text_batches
from tamis.engine.threads import match_parts
from tamis.engine.unreachable import Unreachable
from tamis.errors import ModelError, SubscriptionError, TableError, list_names, shorten
from tamis.index.paused_collection import paused_collection
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

#: Largest number of texts in a table of which each becomes an object at once.
FEW_TEXTS = 128


def _now() -> int:
    return time.time_ns() // 1000


class Engine:
    """Stores subscriptions and returns the ids of those that match an event.

    Parameters
    ----------
    schema
        The attributes events may carry. Without one the engine learns types from the literals of
        subscriptions and the first values of events.
    matcher
        The index that finds matches; every index gives the same results.
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
        self._lease: snapshot.VersionLease | None = None

    @property
    def schema(self) -> Schema:
        """The attributes known so far."""
        return self._schema

    def __len__(self) -> int:
        self._expire()
        return sum(map(len, self._shelves.values()))

    def __contains__(self, id: object) -> bool:
        """Whether the default namespace has a subscription with this id."""
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
            schema, subscription = self._compile(source, chosen, namespace, end, metadata)
            self._admit([subscription])
            self._schema = schema
            return subscription.id

    def subscribe_table(
        self, table: SubscriptionTable, *, reader: TextReader | None = None
    ) -> Sequence[SubscriptionId]:
        """Add all subscriptions of a table, or none: an error names the first bad row. Return their ids.

        A ``reader`` keeps the shapes of texts it has parsed; it is ignored if the engine learns or has another schema.
        """
        if not isinstance(table, SubscriptionTable):
            raise TableError(f"expected a tamis.SubscriptionTable, not {type(table).__name__}")
        with self._lock:
            schema, first_id = self._schema, self._next_id
            try:
                ids = self._subscribe_boxes(table) if table.texts is None else self._subscribe_texts(table, reader)
            except BaseException:
                self._schema, self._next_id = schema, first_id
                raise
            del table  # unless the caller keeps it, its arrays are among the memory that is given back
            self._merge.give_back(len(ids))
            return ids

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
        with self._lock:
            new_ids = self._subscribe_boxes(SubscriptionTable.from_boxes(names, lo, hi, ids), namespace)
            self._merge.give_back(len(new_ids))  # the copy of the bounds is gone
            return new_ids

    def subscribe_balls(
        self, name: str, centers: Any, radii: Any, ids: Sequence[SubscriptionId] | None = None
    ) -> Sequence[SubscriptionId]:
        """Add closed balls of one vector attribute: centers float64[n, d], radii float64[n]. Return their ids."""
        return self.subscribe_table(SubscriptionTable.from_balls(name, centers, radii, ids))

    def unsubscribe(self, id: SubscriptionId, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Remove a subscription; raise `UnknownSubscriptionError` if there is none with this id."""
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
            table = EventTable.of(events, self._schema_for(events, learn_from_table), presence=self._learns)
        if on_bad == "raise" and table.bad:
            raise next(iter(table.bad.values()))
        space = self._living(namespace)
        return Matches(*match_parts(space.matcher.match_table, table, threads), space.ids)

    def explain(
        self, event: Mapping[str, Any], id: SubscriptionId, *, namespace: str = DEFAULT_NAMESPACE
    ) -> Explanation:
        """Explain, condition by condition, why an event matches a subscription or not."""
        schema = self._schema_for(event, learn_from_event)
        subscription = self._living(namespace).subscription(checked_id(id))
        text = subscription.text if subscription.text is not None else format_filters(subscription.filters, schema)
        return explain(self._canonical(event), event, text, schema, subscription.id)

    def namespaces(self) -> list[Namespace]:
        """Return the namespaces, in the order in which they came."""
        return [shelf.now for shelf in self._shelves.values()]

    def subscription(self, id: SubscriptionId, *, namespace: str = DEFAULT_NAMESPACE) -> Subscription:
        """Return a subscription by its id."""
        return self._living(namespace).subscription(checked_id(id))

    def wait(self) -> None:
        """Wait until no merge is running in the background. Results are the same during a merge."""
        self._merge.wait()

    def statistics(self) -> dict[str, Any]:
        """Return counts: subscriptions, namespaces, attributes, and the statistics of each matcher."""
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
            state = snapshot.EngineState(self._schema, self._learns, self._matcher, self._next_id)
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
        lease = snapshot.VersionLease(version)
        return cls.open(snapshot.read(version, key=key), lease, matcher=matcher, clock=clock)

    @classmethod
    def open(
        cls,
        saved: snapshot.Saved,
        lease: snapshot.VersionLease,
        *,
        matcher: str | None = None,
        clock: Callable[[], int] = _now,
    ) -> Self:
        """Return an engine on a snapshot that was read; see `load`."""
        state = saved.state
        engine = cls(None if state.learns else state.schema, matcher or state.matcher, clock=clock)
        engine._schema, engine._next_id, engine._lease = state.schema, state.next_id, lease
        for name, parts in saved.by_namespace().items():
            snapshot.restore(parts, engine._shelf(name).now, partial(engine._compile_record, name, TextTemplates()))
        return engine

    def _compile_record(self, namespace: str, templates: TextTemplates, record: Record) -> Subscription:
        (text, id, expires, metadata), saved_schema = record, self._schema
        filters, schema, _ = templates.compile(text, saved_schema, learns=self._learns)
        if schema is not saved_schema:  # a schema that was saved with a filter has all its attributes
            raise ModelError(f"unknown attribute: the saved schema lacks an attribute of {shorten(text)}")
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

    @paused_collection()
    def _subscribe_texts(self, table: SubscriptionTable, reader: TextReader | None) -> Sequence[SubscriptionId]:
        assert table.texts is not None
        roles = [self._living(name).roles for name in dict.fromkeys(map(table.namespace, range(len(table))))]
        columns = len(table) > FEW_TEXTS and all(role.columns is not None for role in roles)
        if reader is not None and not self._learns and reader.schema == self._schema:
            compiled = reader.read(table.texts, columns=columns)
        else:
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

    def _subscribe_boxes(
        self, table: SubscriptionTable, namespace: str = DEFAULT_NAMESPACE
    ) -> Sequence[SubscriptionId]:
        kind = Number() if table.centers is None else Vector(table.centers.shape[1])
        schema = self._with_attributes(table.names, kind)
        shelf = self._shelf(namespace)
        ids = table.ids if table.ids is not None else self._fresh_ids(len(table), shelf.now.ids)
        shelf.add_boxes(table, ids)
        self._schema = schema
        return ids

    def _fresh_ids(self, n: int, ids: Ids) -> range:
        """Return consecutive free numbers; if one is taken, the counter continues after it."""
        while (taken := ids.last_taken(range(self._next_id, self._next_id + n))) is not None:
            self._next_id = taken + 1
        self._next_id += n
        return range(self._next_id - n, self._next_id)

    def _row_ids(self, table: SubscriptionTable) -> Sequence[SubscriptionId]:
        """Return the id of each row; a row without an id gets a free number."""
        if table.ids is None and table.namespaces is None:
            living_ids, numbers = self._living(DEFAULT_NAMESPACE).ids, range(self._next_id, self._next_id + len(table))
            if living_ids.last_taken(numbers) is None:
                self._next_id = numbers.stop
                return numbers
        ids: Sequence[SubscriptionId | None] = [None] * len(table) if table.ids is None else table.ids
        taken = {id for id in ids if isinstance(id, int)}
        return [self._fresh_id(table.namespace(row), taken) if id is None else id for row, id in enumerate(ids)]

    def _with_attributes(self, names: Sequence[str], kind: AttributeType) -> Schema:
        """Return the schema extended by these names with a type, as boxes and balls need."""
        for name in names:
            if name not in self._schema and not self._learns:
                raise SubscriptionError(f"attribute {name!r} is unknown; known are {list_names(self._schema)}", name)
        return self._schema.extended(dict.fromkeys(names, kind), "a box" if kind == Number() else "a ball")

    def _admit(self, added: Sequence[Subscription]) -> None:
        """Add all subscriptions or none."""
        spaces: dict[str, list[Subscription]] = {}
        for subscription in added:
            spaces.setdefault(subscription.namespace, []).append(subscription)
        for name in spaces:
            self._living(name)  # the id of an expired subscription is free
        additions: list[_Addition] = []
        for name, subscriptions in spaces.items():
            ids = [subscription.id for subscription in subscriptions]
            additions.append((self._shelf(name), partial(Shelf.add, subscriptions=subscriptions), ids))
        _add_all(additions)

    def _fresh_id(self, namespace: str, taken: set[int] | frozenset[int] = frozenset()) -> int:
        shelf = self._shelves.get(namespace)
        living_ids: Container[int] = shelf.now.ids if shelf is not None else ()
        while self._next_id in living_ids or self._next_id in taken:
            self._next_id += 1
        self._next_id += 1
        return self._next_id - 1

    def _living(self, namespace: str) -> Namespace:
        """Return a namespace after removing expired subscriptions; an empty one if it has no subscriptions."""
        shelf = self._shelves.get(namespace)
        if shelf is None:
            return Namespace(namespace, MATCHERS[self._matcher])
        self._expire_in(shelf)
        return shelf.now

    def _shelf(self, name: str) -> Shelf:
        """Return the shelf of a namespace for writing; created on first use."""
        if name not in self._shelves:
            shelf = Shelf(name, MATCHERS[self._matcher], self._merge)
            demand(Guarantee.COMPLETE, shelf.now.matcher.guarantee)
            self._shelves[name] = shelf
        return self._shelves[name]

    def _canonical(self, event: Mapping[str, Any]) -> Event:
        """Return the canonical event; in a learning engine a value of unknown type counts as present (not NULL)."""
        if self._schema.knows_all_of(event):
            return self._schema.event(event)
        schema = self._schema_for(event, learn_from_event)
        canonical = schema.event(event)
        self._unreachable.look(event, schema)
        return canonical | presence_of(schema, event) if self._learns else canonical

    def _schema_for(self, source: Any, learn: Callable[[Schema, Any], Schema]) -> Schema:
        """Return the schema for an event or a table, extended by its types if the engine learns."""
        schema = self._schema
        if not self._learns or learn(schema, source) is schema:
            return schema
        with self._lock:
            self._schema = learn(self._schema, source)
            return self._schema

    def _expire(self) -> None:
        """Remove the expired subscriptions of every namespace."""
        for shelf in list(self._shelves.values()):
            self._expire_in(shelf)

    def _expire_in(self, shelf: Shelf) -> None:
        if shelf.now.next_end is not None:
            shelf.expire(self._clock())


#: A shelf, the call that adds to it, and the ids that it adds.
_Addition = tuple[Shelf, Callable[[Shelf], None], Sequence[SubscriptionId]]


def _add_all(additions: Sequence[_Addition]) -> None:
    """Call the function of each shelf; if one raises, undo all."""
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
    """Refuse a namespace or metadata that could be stored but not saved."""
    if not isinstance(namespace, str):
        raise ModelError(f"a namespace must be a string, not {namespace!r}")
    if not isinstance(metadata, Mapping) or not all(
        isinstance(word, str) for pair in metadata.items() for word in pair
    ):
        raise ModelError(f"metadata must be a mapping from strings to strings, not {metadata!r}")


def _checked_moment(value: object) -> int:
    """Return the end of a subscription in microseconds UTC, or raise `ModelError`."""
    try:
        return moment(value)
    except UnfitError as error:
        raise ModelError(f"expires: {error}") from None
