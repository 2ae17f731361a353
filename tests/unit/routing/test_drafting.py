"""Subscriptions of one HTTP request are checked in batches, and the first that is refused is named."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import msgspec
import pytest

from tamis import Number, Schema
from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse
from tamis.node.content import Content
from tamis.routing import messages as m
from tamis.routing.edge.checks import Checks
from tamis.routing.edge.rights import Rights
from tamis.web.endpoints.subscriptions import AT_ONCE, Drafting, RowError

RIGHTS = Rights("alice")


class Unhurried:
    """Others are never waiting."""

    async def breathe(self) -> None:
        pass


def subscribe(text: str, id: Any, namespace: str = "default") -> m.Subscribe:
    return m.Subscribe(id, msgspec.json.encode(to_json(parse(text))), namespace)


def draft(*messages: m.Subscribe, content: Content | None = None) -> Drafting:
    content = Content(Schema({"a": Number()})) if content is None else content
    drafting = Drafting(Checks(content, None, lambda *_: None), RIGHTS, Unhurried())  # type: ignore[arg-type]

    async def run() -> None:
        for message in messages:
            await drafting.add(message)
        await drafting.finish()

    asyncio.run(run())
    return drafting


def test_texts_of_one_shape_are_not_checked_one_by_one() -> None:
    one_by_one: list[Any] = []
    real = Checks.subscription

    def subscription(self: Checks, *arguments: Any) -> m.Subscribe:
        one_by_one.append(arguments)
        return real(self, *arguments)

    messages = [subscribe(f"a BETWEEN {n} AND {n + 5}", n) for n in range(10 * AT_ONCE)]
    with mock.patch.object(Checks, "subscription", subscription):
        drafting = draft(*messages)
    assert len(one_by_one) <= AT_ONCE, len(one_by_one)  # the first batch shows the shape
    assert [subscription.id for subscription in drafting.drafts["default"].checked] == list(range(10 * AT_ONCE))


@pytest.mark.parametrize("bad", [0, 1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 7])
def test_the_first_row_that_is_refused_is_named(bad: int) -> None:
    messages = [subscribe(f"a > {n}", n) for n in range(2 * AT_ONCE)]
    messages[bad] = subscribe("nothing > 1", bad)
    with pytest.raises(RowError) as refused:
        draft(*messages)
    assert (refused.value.rejection.row, "nothing" in str(refused.value.rejection.error)) == (bad, True)


def test_namespaces_are_checked_by_themselves_and_long_filters_stay_in_order() -> None:
    long = " OR ".join(f"a = {n}" for n in range(300))
    messages = [
        subscribe("a > 1", 1),
        subscribe("a > 2", 2, "other"),
        subscribe(long, 3),
        subscribe("a > 4", 4),
        subscribe("a > 5", 5, "other"),
    ]
    with mock.patch("tamis.web.endpoints.subscriptions.LONG_FILTER", 1 << 30):
        plain = draft(*messages)
    assert [subscription.id for subscription in plain.drafts["default"].checked] == [1, 3, 4]
    assert [subscription.id for subscription in plain.drafts["other"].checked] == [2, 5]
