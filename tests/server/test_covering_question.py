"""What a filter would cover, asked while others publish: a bounded and honest answer, for which no publisher waits."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tamis.model.language.compiler import compile_text
from tamis.routing import messages as m
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.broker.open_broker import open_broker
from tamis.web import covering
from tests.server.processes import HANGS, BrokerProcess, ask

MANY = 800

#: Patterns are compared one by one, and the sum of the two is wider than each.
WIDE = "word LIKE '%a%' OR word LIKE '%b%'"


def fill(broker: BrokerProcess) -> None:
    for start in range(0, MANY, 400):
        many = [{"id": n, "filter": f"word LIKE '%a{n}%b'"} for n in range(start, start + 400)]
        assert ask(f"{broker.url}/v1/subscriptions", "POST", many).status == 201


def trial(broker: BrokerProcess, text: str, **more: Any) -> Any:
    return ask(f"{broker.url}/v1/trial", "POST", {"filter": text, **more}).json


def test_others_are_served_while_a_wide_question_is_answered(broker: BrokerProcess) -> None:
    fill(broker)
    served = 0
    with ThreadPoolExecutor(1) as pool:
        question = pool.submit(trial, broker, WIDE)
        while not question.done():
            assert ask(f"{broker.url}/v1/events", "POST", {"word": "none"}).status == 200
            assert ask(f"{broker.url}/healthz").status == 200
            served += not question.done()
    answer = question.result()
    assert served > 0, "it was answered before any other request"
    assert 0 < answer["covers_count"] <= MANY
    assert answer["covering_complete"] is (answer["covers_count"] == MANY)
    exact = trial(broker, "word LIKE '%a7%' AND word = 'xa7yb'")
    assert (exact["covers_count"], exact["covering_complete"]) == (0, True)
    assert trial(broker, WIDE, covering=False)["covering_complete"] is None


def test_what_was_not_compared_is_not_claimed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The page says "at least" where the broker lost patience."""

    async def story() -> tuple[covering.CoverRelations, covering.CoverRelations]:
        driver, rights = open_broker(BrokerConfig(data=str(tmp_path))), Rights("alice")
        await driver.start()
        messages = [
            (f"s:{n}", m.Subscribe(n, b'{"op":"like","args":[{"property":"word"},"%%a%d%%b"]}' % n)) for n in range(40)
        ]
        await driver.subscribe(messages, rights)
        ours, question = covering.CoverFinder(driver.view), compile_text("word LIKE '%b'")
        whole = await ours.around(question, 5)
        monkeypatch.setattr(covering, "PATIENCE", -1.0)
        some = await ours.around(question, 5)
        await driver.unsubscribe(m.Unsubscribe(7), "s:7", rights)
        monkeypatch.undo()
        assert (await ours.around(question, 5)).covers_count == 39, "it is up to date"
        await driver.stop()
        return whole, some

    whole, some = asyncio.run(asyncio.wait_for(story(), HANGS))
    assert (whole.covers_count, len(whole.covers), whole.covering_complete) == (40, 5, True)
    assert (some.covers_count, some.covering_complete) == (0, False)
