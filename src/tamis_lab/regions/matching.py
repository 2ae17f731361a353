"""The counting matcher under test: with its CR-tree or a scan, what it evaluates and how long a message takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import shapely

from tamis.index.counting import DEFAULT_INDEXES, CountingMatcher, ScanIndex
from tamis.model.subscription import Spatial, Subscription
from tamis_lab.timing import best_seconds

__all__ = ["TYPES", "MatchMeasurement", "match_all", "scan_matcher", "tree_matcher"]

#: The paper's messages: round, irregular, long.
TYPES = ("A", "B", "C")


class MatchMeasurement(NamedTuple):
    """Seconds and evaluated constraints per message, and the matches of each message."""

    seconds: float
    evaluated: float
    matches: list[Any]


def tree_matcher(subscriptions: Iterable[Subscription]) -> CountingMatcher:
    """Return a matcher with the CR-tree that holds these subscriptions."""
    return _filled(CountingMatcher(), subscriptions)


def scan_matcher(subscriptions: Iterable[Subscription]) -> CountingMatcher:
    """Return a matcher that evaluates every region constraint."""
    return _filled(CountingMatcher({**DEFAULT_INDEXES, Spatial: ScanIndex}), subscriptions)


def _filled(matcher: CountingMatcher, subscriptions: Iterable[Subscription]) -> CountingMatcher:
    for subscription in subscriptions:
        matcher.add(int(subscription.id), subscription)
    return matcher


def match_all(matcher: CountingMatcher, regions: Iterable[shapely.Polygon]) -> MatchMeasurement:
    """Return the cost and the matches of a message for each region."""
    events = [{"area": region} for region in regions]
    before = _evaluations(matcher)
    matches = [matcher.match(event).tolist() for event in events]
    evaluated = (_evaluations(matcher) - before) / len(events)
    seconds = best_seconds(lambda: [matcher.match(event) for event in events])
    return MatchMeasurement(seconds / len(events), evaluated, matches)


def _evaluations(matcher: CountingMatcher) -> int:
    return int(matcher.statistics().details["evaluations"])
