"""Every kind of record on a broker's disk: its key, the form of its value, and the module that owns it.

A record is a value under a key, and the first part of a key names its kind. Cores write records with `Kind.put` and
`Kind.drop` and read them back with `Kind.find` and `Kind.items`. The store keeps records by the `RecordForm` of their
kind and knows no kind by name. ``docs/disk-format.md`` is generated from this module (`scripts/disk_format.py`), and
the store refuses to write a kind that is not here, so that page is complete.

Values of types that this package does not know, such as a message of the brokers, are bytes here: the owner of the
record packs and unpacks them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, NoReturn, TypeVar

import msgspec

from tamis.errors import ModelError
from tamis.node.effects import Key, Persist

__all__ = [
    "KINDS",
    "Former",
    "Hold",
    "Kind",
    "Layout",
    "LinkPosition",
    "Progress",
    "RecordForm",
    "Removed",
    "Stored",
    "TablePosition",
    "TokenFile",
    "find_kind",
]

Value = TypeVar("Value")


class RecordForm(enum.Enum):
    """How the store keeps the records of a kind."""

    #: One value under each key, in the table ``state``.
    VALUE = "state"
    #: Numbered messages without holes, in the table ``outbox``; a removed one may stay readable for its retention.
    STREAM = "outbox"
    #: Numbered lines that are only ever appended, each sealed with the one before, in the table of the kind's name.
    LOG = "audit, activity"


@dataclass(frozen=True)
class Layout(Generic[Value]):
    """The encoding of a value as bytes; ``words`` describe it on the page of the disk format."""

    words: str
    encode: Callable[[Value], bytes]
    decode: Callable[[bytes], Value]


class LinkPosition(msgspec.Struct, frozen=True, array_like=True):
    """The position of one end of a link: the life of the other end, and the last messages received and sent."""

    peer_epoch: int
    received: int
    sent: int


class Progress(NamedTuple):
    """The progress of a slice of events: events sent to neighbours, and events delivered to all of their readers.

    The events between the two are delivered to ``groups`` groups of readers, of which the first ``group`` are done.
    """

    sent: int = 0
    delivered: int = 0
    group: int = 0
    groups: int = 0


class Former(NamedTuple):
    """The life of this broker that the other end of a link knows, from before its disk was restored.

    The restored disk has the messages of the life ``epoch`` up to ``sent``.
    """

    epoch: int
    sent: int


class TablePosition(NamedTuple):
    """The position in the tables that a neighbour sends whole: how many began, and which part of which table is next.

    ``number`` is the table's own number, 0 if no part of a table is missing.
    """

    generation: int = 0
    number: int = 0
    next_part: int = 0


class Removed(NamedTuple):
    """The end of a removed link's stream: the lives of both ends, and the last message received from the other end."""

    epoch: int
    peer_epoch: int
    received: int


class Hold(NamedTuple):
    """A message of a shared queue: how often it was taken, which consumer holds it, and whether it is settled.

    ``until`` is in microseconds UTC. ``request`` is the id of the request that took it.
    """

    deliveries: int = 0
    consumer: str = ""
    until: int = 0
    is_done: bool = False
    request: str = ""


class TokenFile(NamedTuple):
    """The tokens of a broker whose state is in a shared store: the number of their changes, and the file as JSON."""

    version: int
    tokens: bytes


class Stored(dict[Key, bytes]):
    """Records as a store returns them; the records of a kind are found without scanning the others.

    Only `apply` changes them: the keys of each kind are cached, and other changes would miss the cache.

    >>> stored = Stored({("number", "east"): b"7", ("spoken", "east"): b"3"})
    >>> stored.keys_of("number"), stored.keys_of("paused")
    ([('number', 'east')], [])
    """

    def __init__(self, records: Mapping[Key, bytes]) -> None:
        super().__init__(records)
        self._groups: dict[str, list[Key]] | None = None

    def keys_of(self, kind: str) -> list[Key]:
        """Return the keys of a kind."""
        if self._groups is None:
            self._groups = {}
            for key in self:
                self._groups.setdefault(key[0], []).append(key)
        return self._groups.get(kind, [])

    def apply(self, changes: Iterable[Persist]) -> None:
        """Apply committed changes."""
        self._groups = None
        for change in changes:
            if change.value is None:
                dict.pop(self, change.key, None)
            else:
                dict.__setitem__(self, change.key, change.value)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        """Raise `TypeError`: see `apply`."""
        raise TypeError("stored records are changed by `apply` alone")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


@dataclass(frozen=True)
class Kind(Generic[Value]):
    """One kind of record.

    ``parts`` name the parts of a key after the kind. A kind with a ``stream_end`` heads the stream of its link: that
    function returns the number of the last message, and when the record is removed the stream ends. Removed messages
    of a stream stay for their retention if it ``is_retained``.

    >>> NUMBER.put("east", value=7)
    Persist(key=('number', 'east'), value=b'7')
    >>> NUMBER.find({("number", "east"): b"7"}, "east"), NUMBER.find({}, "east")
    (7, None)
    """

    name: str
    parts: tuple[str, ...]
    layout: Layout[Value]
    owner: str
    holds: str
    form: RecordForm = RecordForm.VALUE
    stream_end: Callable[[Value], int] | None = None
    is_retained: bool = True

    def key(self, *parts: str) -> Key:
        """Return the key of a record."""
        return (self.name, *parts)

    def put(self, *parts: str, value: Value) -> Persist:
        """Return the change that writes a record."""
        return Persist((self.name, *parts), self.layout.encode(value))

    def drop(self, *parts: str) -> Persist:
        """Return the change that removes a record."""
        return Persist((self.name, *parts), None)

    def find(self, stored: Mapping[Key, bytes], *parts: str) -> Value | None:
        """Return the value of a record; None if there is none."""
        value = stored.get((self.name, *parts))
        return None if value is None else self.layout.decode(value)

    def items(self, stored: Mapping[Key, bytes]) -> Iterator[tuple[Key, Value]]:
        """Yield the records of this kind: the parts of the key after the kind's name, and the value."""
        name, decode = self.name, self.layout.decode
        if isinstance(stored, Stored):
            return ((key[1:], decode(stored[key])) for key in stored.keys_of(name))
        return ((key[1:], decode(value)) for key, value in stored.items() if key[0] == name)


def _struct(words: str) -> Layout[bytes]:
    """Return the layout of a value that its owner packs."""
    return Layout(words, bytes, bytes)


def _packed(words: str, kind: type[Value]) -> Layout[Value]:
    return Layout(words, msgspec.msgpack.encode, msgspec.msgpack.Decoder(kind).decode)


_NUMBER = Layout[int]("decimal number", lambda number: b"%d" % number, int)
_FLAG = Layout[bool]("empty", lambda _: b"", lambda _: True)
_TWO_NUMBERS = Layout[tuple[int, int]](
    "two decimal numbers with a space between them",
    lambda pair: b"%d %d" % pair,
    lambda value: (int(value.split()[0]), int(value.split()[1])),
)

EPOCH = Kind("epoch", (), _NUMBER, "node/node.py", "the life of this broker")
LINK = Kind(
    "link",
    ("link",),
    _packed("MessagePack array of three integers (`node/records.py::LinkPosition`)", LinkPosition),
    "node/stream.py",
    "the life of the other end, and the numbers of the last messages received from it and sent to it; a subscription "
    "that is a client of its own has this record from its first message on",
    stream_end=lambda cursor: cursor.sent,
)
OUT = Kind(
    "out",
    ("link", "number"),
    _struct("MessagePack of a message (`routing/messages.py`)"),
    "node/stream.py",
    "a message for the other end of a link",
    RecordForm.STREAM,
)
OVERFLOW_END = Kind(
    "overflow_end", ("link",), _NUMBER, "node/overflow.py", "the last number of an overflow", stream_end=int
)
OVERFLOW = Kind(
    "overflow",
    ("link", "number"),
    _struct("MessagePack of a message (`routing/messages.py`)"),
    "node/overflow.py",
    "a message behind the outbox of a link; deleted at once when it leaves. `o:north` is the overflow of link `north`",
    RecordForm.STREAM,
    is_retained=False,
)
FORMER = Kind(
    "former",
    ("link",),
    Layout(_TWO_NUMBERS.words, _TWO_NUMBERS.encode, lambda value: Former(*_TWO_NUMBERS.decode(value))),
    "node/node.py",
    "the life of this broker that the other end of a link knows, and the last message of it that the disk had when it "
    "was restored from a backup; deleted when the other end has answered",
)
LIFE = Kind(
    "life",
    ("link",),
    _NUMBER,
    "node/node.py",
    "the life of this broker on a link that was removed and added again; on all other links it is `epoch`",
)
REMOVED = Kind(
    "removed",
    ("neighbour",),
    _packed("MessagePack array of three integers (`node/records.py::Removed`)", Removed),
    "node/node.py",
    "the end of a removed link's stream; deleted when the link was added again and the other end knows it",
)
LINK_OVERRIDE = Kind(
    "said",
    ("neighbour",),
    _struct("JSON of `runtime/links/overrides.py::LinkOverride`"),
    "runtime/links/overrides.py",
    "the last change of a link while the broker ran, and the link in the configuration file at that time",
)
INTEREST = Kind(
    "interest",
    ("source", "key"),
    _struct(
        "MessagePack of `routing/messages.py::Subscribe` for a client, of `routing/table_parts.py::StoredEntry` "
        "for a neighbour"
    ),
    "routing/core/broker.py",
    "a subscription of a client, or an entry of a neighbour's table",
)
RANGES = Kind(
    "ranges",
    ("neighbour", "namespace"),
    _struct("a plan of ranges (`index/mics/plan.py::RangePlan`)"),
    "routing/core/broker.py",
    "the cells of the ranges that a neighbour wants in a namespace; all keys if its cells differ from ours",
)
BLOCK = Kind(
    "block",
    ("neighbour", "namespace", "space", "block"),
    _struct("pairs of little-endian 64-bit integers: the first and the last key of each range"),
    "routing/policies/cell_records.py",
    "the ranges that a neighbour wants within one block of keys",
)
SPOKEN = Kind(
    "spoken", ("neighbour",), _NUMBER, "routing/core/broker.py", "the number of the last update of a neighbour"
)
TABLE = Kind(
    "table",
    ("neighbour",),
    _packed("MessagePack array of three integers (`node/records.py::TablePosition`)", TablePosition),
    "routing/table_parts.py",
    "how many whole tables of a neighbour began, and the next part of the last one; entries with another number of "
    "tables are dropped when the last part has come",
)
NUMBER = Kind(
    "number", ("neighbour",), _NUMBER, "routing/core/broker.py", "the number of the last update sent to a neighbour"
)
PAUSED = Kind("paused", ("neighbour",), _FLAG, "routing/core/flow.py", "this neighbour asked for a pause")
PAUSING = Kind("pausing", ("neighbour",), _FLAG, "routing/core/flow.py", "this neighbour was asked for a pause")
SKIPPED = Kind("skipped", ("neighbour",), _FLAG, "routing/core/flow.py", "the link to this neighbour is skipped")
REACH = Kind(
    "reach",
    ("neighbour",),
    _struct("MessagePack array of `routing/rings.py::_Saved`"),
    "routing/rings.py",
    "the brokers behind a neighbour, the age of its link, and whether the link is refused because of a ring",
)
SLICE = Kind(
    "slice",
    ("number",),
    _struct("MessagePack of the source, the sender and the events (`routing/core/publications.py`)"),
    "routing/core/publications.py",
    "events that were accepted and are not delivered to all of their readers yet",
)
PROGRESS = Kind(
    "progress",
    ("number",),
    _packed("MessagePack array of four integers (`node/records.py::Progress`)", Progress),
    "routing/core/publications.py",
    "the progress of the slice of events with this number; without this record it has not begun",
)
TYPES = Kind(
    "types",
    ("namespace",),
    _struct("JSON of a schema"),
    "routing/edge/checks.py",
    "the types of attributes that were learned in a namespace",
)
SCHEMA = Kind(
    "schema",
    (),
    _struct("JSON of a schema"),
    "routing/edge/checks.py",
    "the types that an earlier version learned for all namespaces; they become records of `types`",
)
GAP = Kind(
    "gap",
    ("link",),
    _struct("MessagePack of `routing/messages.py::Gap`"),
    "routing/edge/backlogs.py",
    "the events that a suspended client has missed so far",
)
LINK_GAP = Kind(
    "link_gap",
    ("neighbour", "namespace"),
    _struct("MessagePack of `routing/messages.py::LinkGap`"),
    "routing/core/link_gaps.py",
    "how many events of a namespace were dropped because the link to a neighbour was full or skipped",
)
HELD = Kind(
    "held",
    ("link", "number"),
    _packed("MessagePack array (`node/records.py::Hold`)", Hold),
    "routing/consumers/sharing.py",
    "who holds a message of a shared queue, by which request and until when, how often it was taken, if it is settled",
)
WEBHOOK = Kind(
    "webhook",
    ("link",),
    _struct("MessagePack map of `routing/webhooks/registration.py::Webhook`"),
    "routing/webhooks/registration.py",
    "where the messages of a subscription are sent, and the keys that sign them: a secret",
)
PRODUCER = Kind(
    "producer",
    ("principal", "producer"),
    _TWO_NUMBERS,
    "routing/edge/producers.py",
    "the number of a producer's last batch, and the time of its arrival in microseconds UTC",
)
REFUSED = Kind(
    "refused",
    ("client", "number"),
    _struct("MessagePack array of `routing/messages.py::Refusal`"),
    "routing/edge/refusals.py",
    "the refused events of one message of a client",
)
TOKENS = Kind(
    "tokens",
    (),
    _packed("MessagePack array of pairs of strings", list[tuple[str, str]]),
    "routing/edge/audit.py",
    "the names of the tokens seen last, and the beginnings of their digests",
)
TOKEN_FILE = Kind(
    "token_file",
    (),
    _packed("MessagePack array of a number and bytes (`node/records.py::TokenFile`)", TokenFile),
    "routing/edge/audit.py",
    "the tokens of a broker with a standby: digests and rights, no secret",
)
AUDIT = Kind(
    "audit",
    ("number",),
    _struct("MessagePack of `routing/edge/audit.py::Deed`"),
    "routing/edge/audit.py",
    "who did what, and when: what concerns security",
    RecordForm.LOG,
)
ACTIVITY = Kind(
    "activity",
    ("number",),
    _struct("MessagePack of `routing/edge/audit.py::Deed`"),
    "routing/edge/audit.py",
    "who did what, and when: subscriptions and links that come and go",
    RecordForm.LOG,
)
FLOOR = Kind(
    "floor",
    ("link",),
    _NUMBER,
    "runtime/stores/tables.py",
    "the number of the last message of a stream that was acknowledged; the store's own record",
)

_ALL: tuple[Kind[object], ...] = (  # type: ignore[assignment]  # a tuple of different values
    EPOCH,
    LINK,
    OUT,
    OVERFLOW_END,
    OVERFLOW,
    FLOOR,
    FORMER,
    LIFE,
    REMOVED,
    LINK_OVERRIDE,
    INTEREST,
    RANGES,
    BLOCK,
    SPOKEN,
    TABLE,
    NUMBER,
    PAUSED,
    PAUSING,
    SKIPPED,
    REACH,
    SLICE,
    PROGRESS,
    TYPES,
    SCHEMA,
    GAP,
    LINK_GAP,
    HELD,
    WEBHOOK,
    PRODUCER,
    REFUSED,
    TOKENS,
    TOKEN_FILE,
    AUDIT,
    ACTIVITY,
)

KINDS: dict[str, Kind[object]] = {kind.name: kind for kind in _ALL}


def find_kind(key: Key) -> Kind[object]:
    """Return the kind of a record; raise `ModelError` if there is none.

    >>> find_kind(("out", "east", "7")).form
    <RecordForm.STREAM: 'outbox'>
    """
    kind = KINDS.get(key[0])
    if kind is None or len(key) != 1 + len(kind.parts):
        raise ModelError(f"the record {key!r} is of no kind that tamis/node/records.py has")
    return kind
