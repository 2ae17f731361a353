"""Interfaces: the forwarding table of the paper, and that counting stops where the answer is known."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import shapely

from tamis.index.counting import DEFAULT_INDEXES, CountingMatcher, ValueSetIndex
from tamis.index.counting.constraint_index import Wanted
from tamis.model.language.compiler import compile_node
from tamis.model.language.parse import parse
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription, Values
from tamis.model.types import Boolean, Number, Region, String
from tamis.model.values import Value

SCHEMA = Schema(
    {
        "stock": String(),
        "price": Number(),
        "bubble": Boolean(),
        "cloud": Region(),
        "pressure": Number(),
        "warning": String(),
        "area": Region(),
        "concentration": Number(),
        "hazard": Number(),
    }
)
SQUARE = "POLYGON((0 0, 9 0, 9 9, 0 9, 0 0))"


def subscription(text: str) -> Subscription:
    return Subscription(text, compile_node(parse(text), SCHEMA), text)


def table(*entries: tuple[str | int | None, str]) -> CountingMatcher:
    matcher = CountingMatcher()
    for row, (interface, text) in enumerate(entries):
        matcher.add(row, subscription(text), interface)
    matcher.check_invariants()
    return matcher


def work(matcher: CountingMatcher, name: str) -> int:
    done = matcher.statistics().details[name]
    assert isinstance(done, int)
    return done


def test_figure_3_of_the_crtree_paper() -> None:
    matcher = table(
        ("I1", "stock = 'MTK' AND price < 100"),
        ("I1", "stock = 'DYS' AND price > 200 AND bubble = TRUE"),
        ("I2", f"RCC_OVERLAPS(cloud, {SQUARE}) AND pressure < 1000"),
        ("I2", f"warning = 'hazardous leak' AND RCC_DISJOINT(area, {SQUARE}) AND concentration > 100 AND hazard > 3"),
    )
    leak = {"warning": "hazardous leak", "area": shapely.box(20, 20, 30, 30), "concentration": 130, "hazard": 5}
    assert matcher.next_hops(SCHEMA.event(leak)) == ["I2"]
    assert matcher.next_hops(SCHEMA.event({**leak, "stock": "MTK", "price": 99})) == ["I1", "I2"]
    assert matcher.next_hops(SCHEMA.event({**leak, "hazard": 3})) == []
    assert matcher.match(SCHEMA.event({**leak, "stock": "MTK", "price": 99})).tolist() == [0, 3]
    assert matcher.statistics().details["constraints"] == 11


def test_a_row_without_an_interface_is_its_own() -> None:
    matcher = table((None, "price < 5"), (None, "price < 3"), ("far", "price < 3"), (7, "price < 3"))
    assert matcher.next_hops({"price": 4}) == [0]
    assert matcher.next_hops({"price": 2}) == [0, 1, 7, "far"]
    assert matcher.next_hops({"price": 9}) == []


def test_interfaces_come_sorted_numbers_first() -> None:
    matcher = table(*[(interface, "price > 0") for interface in ["b", 10, "a", 9]])
    assert matcher.next_hops({"price": 1}) == [9, 10, "a", "b"]


def test_nothing_goes_back_where_it_came_from() -> None:
    matcher = table(("east", "price > 0"), ("west", "price > 0"))
    assert matcher.next_hops({"price": 1}, came_from="east") == ["west"]
    assert matcher.next_hops({"price": 1}, came_from="nowhere") == ["east", "west"]
    before = work(matcher, "counted")
    assert table(("east", "price > 0")).next_hops({"price": 1}, came_from="east") == []
    assert matcher.next_hops({"price": 1}, came_from="west") == ["east"]
    assert work(matcher, "counted") == before + 1


def test_an_interface_is_not_counted_once_it_is_matched() -> None:
    crowd = [("east", f"price > {number}") for number in range(50)]
    matcher = table(*crowd, ("west", "price > 1000"))
    assert matcher.next_hops({"price": 100}) == ["east"]
    assert work(matcher, "counted") == 1
    assert matcher.match({"price": 100}).tolist() == list(range(50))
    assert work(matcher, "counted") == 1 + 50


def test_all_stops_when_every_interface_is_matched() -> None:
    regions = [(side, f"S_INTERSECTS(area, {SQUARE}) AND hazard > {n}") for side in ("east", "west") for n in range(20)]
    patterns = [(side, f"warning LIKE '%{'x' * n}_%'") for side in ("east", "west") for n in range(1, 21)]
    matcher = table(*regions, *patterns, ("east", "price > 1"), ("west", "price > 2"))
    event = SCHEMA.event({"price": 5, "area": (1, 1), "hazard": 100, "warning": "x" * 100})
    assert matcher.next_hops(event) == ["east", "west"]
    assert work(matcher, "evaluations") == 0
    assert len(matcher.match(event)) == 82
    assert work(matcher, "evaluations") == 20 + 1  # each unique pattern, and the one region


class Watched(ValueSetIndex):
    """Counts how often any index of its kind is asked."""

    calls = 0

    def satisfied(self, value: Value | None, wanted: Wanted | None = None) -> Iterable[int]:
        Watched.calls += 1
        return super().satisfied(value, wanted)


def test_no_index_is_asked_when_every_interface_is_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watched, "calls", 0)
    matcher = CountingMatcher({**DEFAULT_INDEXES, Values: Watched})
    for row, (interface, text) in enumerate(
        [("east", "price > 0"), ("west", "price > 1"), ("east", "hazard > 0"), ("west", "pressure > 0")]
    ):
        matcher.add(row, subscription(text), interface)
    event = {"price": 5, "hazard": 5, "pressure": 5}
    assert (matcher.next_hops(event), Watched.calls) == (["east", "west"], 1)
    assert (matcher.next_hops({**event, "price": 1}), Watched.calls) == (["east", "west"], 1 + 3)
    assert (matcher.next_hops({"price": 1, "pressure": 0}), Watched.calls) == (["east"], 4 + 3)
    assert (matcher.next_hops(event, came_from="west"), Watched.calls) == (["east"], 7 + 1)


def test_a_scan_stops_in_the_middle() -> None:
    matcher = table(*[("east", f"warning LIKE '%{letter}_'") for letter in "abcdefgh"])
    assert matcher.next_hops({"warning": "c!"}) == ["east"]
    assert work(matcher, "evaluations") == 3


def test_what_costs_is_not_asked_for_a_matched_interface() -> None:
    matcher = table(
        ("east", "price > 0"),
        *[("east", f"warning LIKE '%{letter}_'") for letter in "abcd"],
        ("west", "warning LIKE '%b_'"),
        ("west", "warning LIKE '%y_'"),
    )
    assert matcher.next_hops({"price": 1, "warning": "z!"}) == ["east"]
    assert work(matcher, "evaluations") == 2


def test_what_costs_is_not_asked_for_a_filter_that_has_failed() -> None:
    matcher = table(*[(None, f"hazard = {n} AND S_INTERSECTS(area, {SQUARE}) AND price > 0") for n in range(20)])
    assert matcher.match(SCHEMA.event({"hazard": 99, "price": 1, "area": (1, 1)})).tolist() == []
    assert work(matcher, "evaluations") == 0
    assert matcher.match(SCHEMA.event({"hazard": 7, "price": 1, "area": (1, 1)})).tolist() == [7]
    assert work(matcher, "evaluations") == 1


def test_an_interface_that_nothing_can_reach_does_not_keep_the_others_counting() -> None:
    matcher = table(("never", "price < 1 AND price > 2"), ("east", "price > 0"), ("east", "warning LIKE '%a_'"))
    assert len(matcher) == 3
    assert matcher.next_hops({"price": 1, "warning": "ab"}) == ["east"]
    assert work(matcher, "evaluations") == 0


def test_an_interface_goes_with_its_last_filter() -> None:
    matcher = table(("east", "price > 0"), ("east", "price > 5"), ("west", "price > 0"))
    matcher.remove(0)
    assert matcher.next_hops({"price": 1}) == ["west"]
    assert matcher.statistics().details["interfaces"] == 2
    matcher.remove(1)
    matcher.check_invariants()
    assert matcher.statistics().details["interfaces"] == 1
    assert matcher.next_hops({"price": 9}) == ["west"]


@pytest.mark.parametrize("event", [{}, {"price": 1}])
def test_an_event_that_no_subscription_matches_has_no_next_hop(event: dict[str, int]) -> None:
    assert CountingMatcher().next_hops(event) == []
    assert table(("east", "price IS NULL AND price > 0")).next_hops(event) == []
