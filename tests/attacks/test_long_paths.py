"""Attack: names with thousands of dots, and events with many objects in which they are looked up.

Five filters on names of 8,000 parts made an event of 300 bytes cost 13 seconds of the event loop.
"""

from __future__ import annotations

from typing import Any

import pytest

from tamis.errors import LimitError
from tamis.model.types.paths import MAX_DEPTH, MAX_LOOKUPS, Lookups, value_at
from tamis.node.content import Content


class Counting(dict[str, Any]):
    """An object that counts how often it is asked for a key."""

    lookups = 0

    def get(self, key: str, default: Any = None) -> Any:  # type: ignore[override]
        Counting.lookups += 1
        return super().get(key, default)


def path(n: int) -> str:
    return ".".join("a" * n)


def test_a_name_with_more_parts_than_an_event_has_levels_is_a_key() -> None:
    Counting.lookups = 0
    event = Counting({"a": [Counting() for _ in range(100)]})
    assert value_at(event, path(8_000)) is None
    assert Counting.lookups == 0
    assert value_at(Counting({path(8_000): 1}), path(8_000)) == 1
    assert value_at({"a": [{path(MAX_DEPTH - 1): 7}]}, path(MAX_DEPTH)) == [7]


def test_what_is_looked_up_is_counted_for_all_paths_of_an_event() -> None:
    Counting.lookups = 0
    event = Counting({"a": [Counting() for _ in range(1_000)]})
    lookups = Lookups()

    def look_up_all() -> None:
        for _ in range(256):
            value_at(event, path(MAX_DEPTH), lookups)

    with pytest.raises(LimitError, match="keys that are looked up for the paths in one event"):
        look_up_all()
    assert 0.9 * MAX_LOOKUPS < Counting.lookups <= MAX_LOOKUPS


def test_an_event_that_costs_more_is_refused() -> None:
    content = Content()
    for number in range(200):
        content.compile(f"{path(MAX_DEPTH - 1)}.b{number} = 1")
    assert content.write_event({"a": [{} for _ in range(10)]})
    with pytest.raises(LimitError, match="keys that are looked up"):
        content.write_event({"a": [{} for _ in range(1_000)]})
