"""Simplification before a policy: filters are compared and announced with as few conditions as possible.

The rules are exact (`tamis.algebra.simplify`): a simplified subscription matches the same events, so only sizes change.
A filter with one condition on each attribute is already simple and is passed on as it is.

Implements: [crtree] section 4.2, the simplifier, for what brokers announce.
Deviation: exact rules on raw values; the paper's sampled relations may delete a filter that can match (erratum S.3.7).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

from tamis.algebra.simplify import simplify_filters
from tamis.index.dominance.batches import Questions
from tamis.index.protocols import CoveringIndex
from tamis.model.subscription import Filter, Subscription
from tamis.routing.core.interest import NamedInterest
from tamis.routing.core.summary import NewGroup, Placement, Strategy, Wanted

__all__ = ["Simplified"]

#: A subscription with more filters is not simplified: comparing all pairs takes longer than it saves.
MOST_FILTERS = 32

#: Cost limit of the proofs that simplify one subscription, in pieces of about 50 microseconds.
PIECES = 200


class Simplified:
    """A strategy whose subscriptions are simplified first.

    >>> from tamis.model.language.compiler import compile_text
    >>> from tamis.routing.policies.identity import IdentityStrategy
    >>> growth = Simplified(IdentityStrategy()).grow(compile_text("x < 1 OR x < 2", id="s"))
    >>> growth.content.filters == compile_text("x < 2").filters
    True
    """

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy

    @property
    def finder(self) -> CoveringIndex | None:
        """The index of the strategy that follows."""
        return self._strategy.finder

    def find_homes(self, subscription: Subscription) -> tuple[str, ...] | None:
        """Return groups that together contain a subscription."""
        return self._strategy.find_homes(_simple(subscription))

    def grow(self, subscription: Subscription) -> NewGroup:
        """Return the group to make for a simplified subscription that has no home."""
        return self._strategy.grow(_simple(subscription))

    def place(self, keys: Sequence[str], questions: Questions) -> Placement | None:
        """Return homes for many subscriptions at once, each of them simplified."""
        simpler = dict(_simpler(questions))
        if simpler:
            subscriptions = [
                simpler.get(position, subscription) for position, subscription in enumerate(questions.subscriptions)
            ]
            questions = Questions(subscriptions, questions.columns)
        placement = self._strategy.place(keys, questions)
        return None if placement is None else placement._replace(contents={**placement.contents, **simpler})

    def opened(self, content: Subscription) -> None:
        """Note a new group."""
        self._strategy.opened(content)

    def closed(self, content: Wanted) -> None:
        """Note that a group has ended."""
        self._strategy.closed(content)


def _simpler(questions: Questions) -> Iterator[tuple[int, Subscription]]:
    """Yield the subscriptions that have a simpler form, each as its position and that form."""
    for position in questions.others:
        if not _is_simple(questions.filters(position)):
            original = questions.subscriptions[position]
            subscription = original if isinstance(original, Subscription) else cast(NamedInterest, original).made()
            simple = _simple(subscription)
            if set(simple.filters) != set(subscription.filters):
                yield position, simple


def _simple(subscription: Subscription) -> Subscription:
    if not 1 <= len(subscription.filters) <= MOST_FILTERS or _is_simple(subscription.filters):
        return subscription
    return replace(subscription, filters=simplify_filters(subscription.filters, PIECES))


def _is_simple(filters: tuple[Filter, ...]) -> bool:
    """Whether there is one filter, with one condition on each attribute."""
    return len(filters) == 1 and len(filters[0].attributes) == len(filters[0].constraints)
