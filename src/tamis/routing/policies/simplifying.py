"""Simplification before a policy: what is compared and announced has as few conditions as could be found.

The rules are exact (`tamis.algebra.simplify`): a simplified subscription matches the same events, so nothing but sizes
changes. Filters with one condition on each attribute are as simple as they get and are passed on as they are.

Implements: [crtree] section 4.2, the simplifier, for what brokers announce.
Deviation: exact rules on raw values; the paper's sampled relations may delete a filter that can match (erratum S.3.7).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

from tamis.algebra.simplify import simplify_filters
from tamis.index.dominance.batches import Questions
from tamis.model.subscription import Filter, Subscription
from tamis.routing.core.interest import NamedInterest
from tamis.routing.core.summary import Growth, Placement, Strategy, Wanted

__all__ = ["Simplified"]

#: Filters of one subscription up to which it is simplified: comparing more pairs takes longer than it saves.
MOST_FILTERS = 32


class Simplified:
    """A strategy that sees simplified subscriptions.

    >>> from tamis.model.language.compiler import compile_text
    >>> from tamis.routing.policies.identity import Identity
    >>> growth = Simplified(Identity()).grow(compile_text("x < 1 OR x < 2", id="s"))
    >>> growth.content.filters == compile_text("x < 2").filters
    True
    """

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy

    def find_homes(self, subscription: Subscription) -> tuple[str, ...] | None:
        """Return groups that together contain a subscription."""
        return self._strategy.find_homes(_simple(subscription))

    def grow(self, subscription: Subscription) -> Growth:
        """Return the group to make for a simplified subscription that has no home."""
        return self._strategy.grow(_simple(subscription))

    def place(self, keys: Sequence[str], questions: Questions) -> Placement | None:
        """Return homes for many subscriptions at once, each of them simplified."""
        simpler = dict(_simpler(questions))
        if simpler:
            some = [simpler.get(position, one) for position, one in enumerate(questions.subscriptions)]
            questions = Questions(some, questions.columns)
        placement = self._strategy.place(keys, questions)
        return None if placement is None else placement._replace(contents={**placement.contents, **simpler})

    def opened(self, content: Subscription) -> None:
        """Take note of a new group."""
        self._strategy.opened(content)

    def closed(self, content: Wanted) -> None:
        """Take note that a group has ended."""
        self._strategy.closed(content)


def _simpler(questions: Questions) -> Iterator[tuple[int, Subscription]]:
    """Yield the subscriptions that something simpler says, by position."""
    for position in questions.others:
        if not _is_simple(questions.filters(position)):
            wanted = questions.subscriptions[position]
            subscription = wanted if isinstance(wanted, Subscription) else cast(NamedInterest, wanted).made()
            simple = _simple(subscription)
            if set(simple.filters) != set(subscription.filters):
                yield position, simple


def _simple(subscription: Subscription) -> Subscription:
    if not 1 <= len(subscription.filters) <= MOST_FILTERS or _is_simple(subscription.filters):
        return subscription
    return replace(subscription, filters=simplify_filters(subscription.filters))


def _is_simple(filters: tuple[Filter, ...]) -> bool:
    """Whether there is one filter, with one condition on each attribute."""
    return len(filters) == 1 and len(filters[0].attributes) == len(filters[0].constraints)
