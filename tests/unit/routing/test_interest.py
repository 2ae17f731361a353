"""Documents that are read together mean what each of them means alone."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tamis import Number, Schema, String, Timestamp
from tamis.algebra.evaluate import matches
from tamis.errors import RemoteProtocolError, TamisError
from tamis.model.schema import Event
from tamis.node.content import Content
from tamis.node.core import LinkUp
from tamis.node.effects import Key, Persist, Send
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore, client_key
from tamis.routing.core.event_batch import EventBatch
from tamis.routing.core.interest import MANY, Interest
from tamis.routing.policies import POLICIES
from tamis.routing.table_parts import Connected

SCHEMA = Schema({"a": Number(), "b": Number(), "s": String(), "t": Timestamp()})
MOMENTS = [f"2026-01-0{day}T00:00:00.{micros}Z" for day in (1, 2, 3) for micros in ("000000", "000001")]
#: Numbers at which a range ends, among them some that an index of float64 cannot hold.
NUMBERS: list[Any] = [-2, -1.5, -0.0, 0, 0.5, 1, 1.0, 2, 1e300, 2**53, 2**53 + 1, 2**62]


def random_condition(rng: random.Random) -> Any:
    """Return a condition, mostly of few shapes; now and then an unusual one."""
    name = rng.choice("aabbst")
    samples: dict[str, list[Any]] = {"s": ["", "x", "y", "x\0"], "t": [{"timestamp": moment} for moment in MOMENTS]}
    values = samples.get(name, NUMBERS)
    prop, low, high = {"property": name}, rng.choice(values), rng.choice(values)
    if name == "s":
        return {"op": "=", "args": [prop, low]}
    forms = [{"op": op, "args": [prop, low]} for op in ("<", "<=", ">", ">=", "=")]
    forms += [{"op": "between", "args": [prop, low, high]}] * 6
    forms += [{"op": "in", "args": [prop, [low, high]]}, {"op": "not", "args": [forms[0]]}]
    return rng.choice(forms)


def random_documents(rng: random.Random, n: int) -> list[bytes]:
    content, documents = Content(SCHEMA), list[bytes]()
    while len(documents) < n:
        parts = [random_condition(rng) for _ in range(rng.choice((1, 1, 2)))]
        document = parts[0] if len(parts) == 1 else {"op": "and", "args": parts}
        data = json.dumps(document, separators=(",", ":")).encode()
        try:
            content.compile_json(data)
        except TamisError:
            continue
        documents.append(data)
    return documents


def random_event(rng: random.Random) -> dict[str, Any]:
    values = {"a": rng.choice(NUMBERS), "b": rng.choice(NUMBERS), "s": rng.choice(("", "x", "y"))}
    values["t"] = rng.choice(MOMENTS)
    return {name: value for name, value in values.items() if rng.random() < 0.8}


def expected(documents: list[bytes], event: Event) -> set[int]:
    content = Content(SCHEMA)
    meanings = [content.compile(json.loads(document)) for document in documents]
    return {row for row, filters in enumerate(meanings) if any(matches(event, filter) for filter in filters)}


def readers(core: BrokerCore, event: Event) -> set[Any]:
    [keys] = core.table.matching_of_batch(EventBatch([event], "default", SCHEMA))
    return {interest.id for interest in core.table.group(keys).get("c", [])}


@pytest.mark.parametrize("seed", range(3))
def test_a_batch_and_a_restart_match_what_each_document_matches(seed: int) -> None:
    rng = random.Random(seed)
    documents = random_documents(rng, 200)
    core = BrokerCore("here", {}, Content(SCHEMA))
    stored: dict[Key, bytes] = {}
    for start in range(0, len(documents), 100):
        batch = [("c", m.Subscribe(row, documents[row])) for row in range(start, start + 100)]
        stored |= {
            effect.key: effect.value
            for effect in core.subscribe(batch, 0.0)
            if isinstance(effect, Persist) and effect.value
        }
    again = BrokerCore("here", {}, Content(SCHEMA))
    again.restore(stored, now=0.0)
    for row in rng.sample(range(len(documents)), 20):  # what came as columns can be looked up and removed
        for broker in (core, again):
            broker.handle(m.Unsubscribe(row), sender="c", now=0.0)
            assert row not in {interest.id for interest in broker.table.interests("c").values()}
        documents[row] = (
            b'{"op":"and","args":[{"op":"<","args":[{"property":"a"},0]},{"op":">","args":[{"property":"a"},0]}]}'
        )
    for broker in (core, again):
        broker.check_invariants()
    for _ in range(40):
        event = SCHEMA.event(random_event(rng))
        assert readers(core, event) == readers(again, event) == expected(documents, event)


@pytest.mark.parametrize("seed", range(2))
def test_the_written_form_is_that_of_the_filters(seed: int) -> None:
    documents = random_documents(random.Random(seed), 300)
    content = Content(SCHEMA)
    unchanged = [document for document in documents if content.written_form(document) is document]
    assert len(unchanged) > 20
    for document in documents:
        plain = Content(SCHEMA)  # one that has read nothing: it writes 1 and 1.0 as they are
        filters = plain.compile(json.loads(document))
        assert plain.read_filter(content.written_form(document)) == filters
        assert document not in unchanged or plain.write_filter(filters) == document


def test_a_document_that_cannot_be_read_is_refused_alone() -> None:
    core = BrokerCore("here", {}, Content(SCHEMA))
    good = b'{"op":"<","args":[{"property":"a"},1]}'
    batch = [("c", m.Subscribe(row, b"{" if row == 7 else good)) for row in range(2 * MANY)]
    effects = core.subscribe(batch, 0.0)
    refused = [
        effect.message for effect in effects if isinstance(effect, Send) and isinstance(effect.message, m.Refusal)
    ]
    assert [refusal.subject for refusal in refused] == ["subscription 7"]
    assert readers(core, {"a": 0.0}) == set(range(2 * MANY)) - {7}
    assert client_key("c", "default", 7) not in core.table.interests("c")


def test_nothing_of_an_update_with_a_bad_entry_is_applied() -> None:
    core = BrokerCore("here", {"east": POLICIES["covering"]}, Content(SCHEMA))
    good = b'{"op":"<","args":[{"property":"a"},1]}'
    entries = tuple(m.Entry(f"k{row}", "default", b"[" if row == 40 else good) for row in range(2 * MANY))
    with pytest.raises(RemoteProtocolError, match="entry 'k40'"):
        core.handle(m.Update(1, entries, (), replace=True, ranges=()), sender="east", now=0.0)
    assert not core.table.interests("east")
    assert core.table.unspoken == {"east"}


def test_a_batch_that_is_announced_as_it_is_written_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy every asks nothing of a filter, so its document goes on as it came."""
    documents = [Content(SCHEMA).write_filter(Content(SCHEMA).compile(f"a BETWEEN {i} AND {i + 1}")) for i in range(64)]
    core = BrokerCore("here", {"east": POLICIES["every"]}, Content(SCHEMA))
    for message in (Connected(takes_parts=False), LinkUp(), m.Update(1, replace=True)):
        core.handle(message, sender="east", now=0)
    monkeypatch.setattr(Interest, "filters", property(lambda self: pytest.fail(f"{self.document!r} is compiled")))
    effects = core.subscribe([("alice", m.Subscribe(i, document)) for i, document in enumerate(documents)], now=0)
    [update] = [effect.message for effect in effects if isinstance(effect, Send) and effect.link == "east"]
    assert [entry.filter for entry in update.announce] == documents
