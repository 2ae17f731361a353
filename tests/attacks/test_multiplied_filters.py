"""Attack: a short filter that is long when it is multiplied out.

``(a = 1 OR b = 2) AND ...`` with eight parts is 256 filters. Each of them used to be kept however much it said: the
document that the broker wrote was up to 130 times as long as the filter, took a second to make, and was beyond the
limits for reading. The broker did not start again, and its neighbours cut the link.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tamis.errors import LimitError
from tamis.model.schema import Schema
from tamis.node.content import Content
from tests.fuzz import language
from tests.server.processes import BrokerProcess, ask, running


def ring(n: int, x: float) -> str:
    """A star with ``n`` corners, as the text of a ring."""
    corners = [(1 + 0.3 * (k % 2), 2 * math.pi * k / n) for k in range(n)]
    corners.append(corners[0])
    return "(" + ",".join(f"{x + r * math.cos(a):.6f} {r * math.sin(a):.6f}" for r, a in corners) + ")"


def both(*parts: str) -> str:
    """Each part, or another condition; all of that."""
    return " AND ".join(f"({part} OR b{i} = 2)" for i, part in enumerate(parts))


def numbers(n: int, start: int) -> str:
    return ",".join(f"{start + k}.5" for k in range(n))


#: Texts that were refused when they were read again, or took longer than 50 ms, or grew at every broker.
TEXTS = {
    "names": both(*(f"{'a' * 20}{i} = 1" for i in range(8))),
    "strings": both(*(f"a{i} = '{'x' * 200}'" for i in range(8))),
    "lists": both(*(f"a{i} IN ({numbers(900, i)})" for i in range(8))),
    "regions": both(*(f"S_INTERSECTS(g, POLYGON({ring(9, i / 100)}))" for i in range(8))),
    "large regions": both(*(f"S_INTERSECTS(g, POLYGON({ring(1_200, i / 100)}))" for i in range(8))),
    "lines": both(*(f"S_CROSSES(g, LINESTRING{ring(1_200, i / 100)})" for i in range(8))),
    "vectors": both(*(f"V_WITHIN(v, ({numbers(3_000, i)}), {i + 1})" for i in range(8))),
    "balls": both(*(f"V_WITHIN({'v' * 10}{i}, (1, 2), {i + 1})" for i in range(8))),
    "many plain parts": " AND ".join(f"c{i} = 1" for i in range(200))
    + f" AND {both(*(f'a{i} = 1' for i in range(8)))}",
    "a list beside a tree": f"x IN ({numbers(6_000, 0)}) AND {both(*(f'a{i} = 1' for i in range(12)))}",
    "all of many regions": " AND ".join(f"S_INTERSECTS(g, POLYGON({ring(150, i / 100)}))" for i in range(64)),
    "any of many regions": " OR ".join(f"S_WITHIN(g, POLYGON({ring(150, i / 100)}))" for i in range(64)),
    "sets": both(*(f"A_CONTAINS(tags, ('{i}', 'x{i}', 'y', 'z{i}'))" for i in range(8))),
    "a set": f"A_CONTAINS(tags, ({','.join(repr(str(i)) for i in range(500))}))",
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_written_is_short_and_can_be_read(name: str) -> None:
    content = Content()
    filters = content.compile(TEXTS[name])
    written = content.write_filter(filters)
    assert len(written) < 8 * len(TEXTS[name]) + 300_000
    other = Content(content.schema)  # of another broker, or after a restart
    assert other.read_filter(written) == filters
    assert other.write_filter(other.read_filter(written)) == written


@pytest.mark.parametrize("name", TEXTS)
def test_reading_takes_no_longer_than_other_filters(name: str) -> None:
    """CPU time beside a yardstick, as for the texts of the fuzzer."""
    assert language.treated(TEXTS[name])[1] is None


@pytest.mark.parametrize("function", ["A_CONTAINS", "A_EQUALS"])
def test_the_values_of_sets_are_limited(function: str) -> None:
    """Each of them is a condition. They were counted as a list is, and 1,500 took many seconds to compile."""
    half = f"{function}(tags, ({','.join(map(str, range(251)))}))"
    document = {"op": function.lower(), "args": [{"property": "tags"}, list(range(501))]}
    for source in (f"{half} OR NOT {half}", document):
        with pytest.raises(LimitError, match="values in A_CONTAINS and A_EQUALS of one filter: 50"):
            Content().compile(source)


def test_limits_hold_for_what_a_client_writes() -> None:
    """Only what a broker wrote may say more than a client may."""
    content = Content()
    written = content.write_filter(content.compile(TEXTS["balls"]))
    with pytest.raises(LimitError, match="characters of filter text"):
        Content(Schema(content.schema)).compile_json(written)


def test_a_broker_with_such_subscriptions_starts_again(tmp_path: Path) -> None:
    with running(BrokerProcess(tmp_path)) as (broker,):
        for name, text in TEXTS.items():
            question = {"filter": text, "id": name, "namespace": name.replace(" ", "-")}
            answer = ask(f"{broker.url}/v1/subscriptions", "POST", question)
            assert answer.status == 201, answer.body
        broker.stop()
        broker.start().wait_until_ready()
        assert ask(f"{broker.url}/v1/events?namespace=names", "POST", {f"b{i}": 2 for i in range(8)}).status == 200
        [message] = ask(f"{broker.url}/v1/subscriptions/names/log?namespace=names").json["messages"]
        assert message["event"] == {f"b{i}": 2 for i in range(8)}
