"""Attack: an event with 600,000 empty lists, which took 0.9 s to refuse.

What counts is how many characters a parser is given before it is refused.
"""

from __future__ import annotations

import json
import random

import pytest

from tamis.errors import RefusedError
from tamis.files import strict_json as arrays
from tamis.model import strict_json
from tamis.model.strict_json import MAX_CONTAINERS, count_outside_strings, read_event
from tamis.web.bodies import _array, _object

LISTS = '{"a": [' + ",".join(["[]"] * 600_000) + "]}"


class Counting:
    """A decoder that counts the characters it is given."""

    def __init__(self, decoder: json.JSONDecoder) -> None:
        self.characters = 0
        self._decoder = decoder

    def decode(self, text: str) -> object:
        self.characters += len(text)
        return self._decoder.decode(text)

    def raw_decode(self, text: str, at: int) -> tuple[object, int]:
        self.characters += len(text) - at
        return self._decoder.raw_decode(text, at)


@pytest.fixture
def parser(monkeypatch: pytest.MonkeyPatch) -> Counting:
    counting = Counting(strict_json.DECODER)
    for module in (strict_json, arrays):
        monkeypatch.setattr(module, "DECODER", counting)

    def read_quickly(data: str | bytes) -> object:
        counting.characters += len(data)
        return json.loads(data)

    monkeypatch.setattr(strict_json, "_DECODE", read_quickly)
    return counting


def test_lists_without_end_are_refused_before_they_are_parsed(parser: Counting) -> None:
    with pytest.raises(RefusedError, match="more than 40,000 objects and lists in one object"):
        _object(LISTS, None)
    assert parser.characters == 0
    with pytest.raises(RefusedError, match="more than 40,000 objects and lists in one object"):
        list(_array(f'[{{"n": 1}}, {LISTS}]'))
    # The first object is parsed at its place; the second begins a part of its own, which ends at the limit.
    assert parser.characters < 3 * (3 * MAX_CONTAINERS + 4_096)


def test_what_is_within_the_limit_is_read() -> None:
    event = {"a": [[]] * (MAX_CONTAINERS - 2), "b": "x" * 100_000}
    text = json.dumps(event)
    assert count_outside_strings(text, "[{") == MAX_CONTAINERS
    assert _object(text, None) == read_event(text) == event
    assert list(_array(f"[{text}, {text}]")) == [event, event]
    beyond = text.replace('"a": [', '"a": [[], ')
    for read in (lambda: _object(beyond, None), lambda: list(_array(f"[{beyond}]"))):
        with pytest.raises(RefusedError, match="objects and lists"):
            read()


def test_brackets_in_strings_are_not_counted_as_lists() -> None:
    event = {"text": '[{"\\' * 100_000, "after": [1, {"n": 2}]}
    text = json.dumps(event)
    assert _object(text, None) == event
    assert list(_array(f"[{text}, {text}]")) == [event, event]


def test_they_are_counted_as_the_parser_finds_them() -> None:
    rng = random.Random(23)

    def value(levels: int) -> object:
        kind = rng.randrange(4 if levels else 2)
        if kind == 0:
            return "".join(rng.choice('[{"\\\n\té\ud800]},:') for _ in range(rng.randrange(6)))
        if kind == 1:
            return rng.choice([1, -2.5, None, True])
        items = [value(levels - 1) for _ in range(rng.randrange(4))]
        return items if kind == 2 else {str(value(0)): item for item in items}

    def containers(value: object) -> int:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return isinstance(value, dict | list) + sum(map(containers, inner))

    for _ in range(2_000):
        document = value(4)
        text = json.dumps(document, ensure_ascii=rng.random() < 0.5)
        assert count_outside_strings(text, "[{") == containers(document), text
