"""Subscriptions of a snapshot as messages: texts of one shape are not compiled, and mean what they meant."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec
import pyarrow as pa
import pytest

import tamis
from tamis.engine import Engine
from tamis.errors import SnapshotError
from tamis.model.language.compiler import compile_text
from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse
from tamis.model.language.templates.texts import split_text
from tamis.model.language.templates.wording import TextDocuments
from tamis.node.content import Content
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.edge.core import EdgeCore
from tamis.runtime.broker.snapshot_subscriptions import _subscribe, _subscriptions, _Wanted

SCHEMA = tamis.Schema(
    {"n": tamis.Number(0, 100), "s": tamis.String(), "at": tamis.Timestamp(), "where": tamis.Region()}
)

#: Texts of six shapes, each several times; the literals of a shape differ in form.
TEXTS = [
    text
    for i in range(6)
    for text in (
        f"n BETWEEN {i} AND {i}.5",
        f"s = 'O''{i}' AND n >= {['1e1', '-0.0', '7', '.5', '+3', '10'][i]}",
        f"s LIKE '{i}%' OR NOT n < {i}",
        f"n IN ({i}, {i + 1}, 50)",
        f"at < TIMESTAMP('201{i}-02-01T00:00:00Z')",
        f"S_INTERSECTS(where, BBOX({i}, 0, 9, 9))",
    )
]


def wanted_of(engine: Engine) -> Iterator[_Wanted]:
    """Yield what a broker is to have of an engine."""
    return (
        subscription
        for space in engine.namespaces()
        for batch in _subscriptions(engine, space)
        for subscription in batch
    )


def test_the_messages_of_a_snapshot_say_what_its_texts_say(tmp_path: Path) -> None:
    engine, later = Engine(SCHEMA), round(time.time() * 1e6) + 10**12
    table = pa.table({"id": [f"id{i}" for i in range(len(TEXTS))], "filter": TEXTS})
    engine.subscribe_table(tamis.SubscriptionTable.from_arrow(table))
    engine.subscribe("n > 99", id=7, namespace="east", expires=later, metadata={"team": "a"})
    engine.save(tmp_path / "saved")
    loaded, content = Engine.load(tmp_path / "saved"), Content(SCHEMA)
    wanted = {(request.message.namespace, request.message.id): request for request in wanted_of(loaded)}
    assert wanted.keys() == {("default", f"id{i}") for i in range(len(TEXTS))} | {("east", 7)}
    by_shape = 0
    for i, text in enumerate(TEXTS):
        message, compiled = wanted["default", f"id{i}"].message, wanted["default", f"id{i}"].compiled
        assert m.about(message).text == text
        assert (compiled is None) == bool(message.filter)
        if compiled is None:
            by_shape += 1
            assert message.filter == msgspec.json.encode(to_json(parse(text)))
            assert content.read_filter(content.written_form(message.filter)) == compile_text(text, SCHEMA).filters
        else:
            assert compiled.filters == compile_text(text, SCHEMA).filters
    assert by_shape == 4 * 4  # of six texts of a shape two show it; moments and regions are compiled
    east = wanted["east", 7].message
    assert (east.expires, m.about(east).metadata) == (later, {"team": "a"})


def test_what_has_ended_is_left_out(tmp_path: Path) -> None:
    engine = Engine(SCHEMA)
    texts = [f"n > {i}" for i in range(5)]
    for i, text in enumerate(texts):
        engine.subscribe(text, id=i, expires=round(time.time() * 1e6) + (10**12 if i != 3 else 400_000))
    engine.save(tmp_path / "saved")
    loaded = Engine.load(tmp_path / "saved")
    time.sleep(0.5)
    assert [request.message.id for request in wanted_of(loaded)] == [0, 1, 2, 4]


def test_many_texts_of_two_shapes_become_documents_together(tmp_path: Path) -> None:
    """The literals of some are written as no JSON has them, and one text has the words of another shape in it."""
    texts = [f"n > {i} AND n < {i + 2}.50" if i % 3 else f"n >= {i}e0" for i in range(90)]
    texts[40:44] = ["n > .5 AND n < 7", "n > +4 AND n < 7", "n > 1 AND n < 2 AND n < 2.50", "n > 007 AND n < 8"]
    engine = Engine(SCHEMA)
    engine.subscribe_table(tamis.SubscriptionTable.from_arrow(pa.table({"id": range(len(texts)), "filter": texts})))
    engine.save(tmp_path / "saved")
    content, by_shape = Content(SCHEMA), 0
    with patch("tamis.model.language.templates.wording.split_text", side_effect=split_text) as split:
        requests = list(wanted_of(Engine.load(tmp_path / "saved")))
    for text, request in zip(texts, requests, strict=True):
        if request.compiled is None:
            by_shape += 1
            assert content.read_filter(request.message.filter) == compile_text(text, SCHEMA).filters
    assert by_shape >= 80
    assert split.call_count == len(texts)  # a first batch has no shapes yet
    documents = TextDocuments()
    usual = [text for text in texts if "AND" in text and text not in texts[40:44]]
    expected = [msgspec.json.encode(to_json(parse(text))) for text in usual]
    assert documents.find_many(usual)[2:] == expected[2:]
    with patch("tamis.model.language.templates.wording.split_text", side_effect=split_text) as split:
        assert documents.find_many(usual) == expected
    assert split.call_count == 0


@pytest.mark.parametrize("text", ["n IS NULL", "TRUE", "n IS NOT NULL AND n > 4"])
def test_filters_of_a_shape_without_numbers_come_in_batches_too(text: str) -> None:
    documents, expected = TextDocuments(), msgspec.json.encode(to_json(parse(text)))
    for _ in range(3):
        assert documents.find_many([text] * 20)[2:] == [expected] * 18


@pytest.mark.parametrize(
    ("namespace", "culprit"),
    [("default", "subscription 'third'"), ("x" * 200, "namespace 'x+'"), ("*", r"namespace '\*'")],
)
def test_a_refusal_names_what_is_refused(tmp_path: Path, namespace: str, culprit: str) -> None:
    engine, content = Engine(SCHEMA), Content(SCHEMA)
    for id, text in (("first", "n > 1"), ("second", "n > 2"), ("third", "n > 3"), ("fourth", "n > 4")):
        metadata = {"note": "x" * (2 << 20)} if id == "third" else {}
        engine.subscribe(text, id=id, metadata=metadata)
    engine.save(tmp_path / "saved")
    wanted = list(wanted_of(Engine.load(tmp_path / "saved")))
    checks = EdgeCore(BrokerCore("here", {}, content), content, {}).checks
    driver: Any = SimpleNamespace(view=SimpleNamespace(checks=checks, subscriptions={}))
    version: Any = "saved"
    with pytest.raises(SnapshotError, match=culprit):
        asyncio.run(_subscribe(driver, version, SCHEMA, namespace, wanted))
