"""The Python examples of docs/server.md run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.server.processes import BrokerProcess, ask

PAGE = Path(__file__).parents[2] / "docs" / "server.md"
ADDRESS = "http://127.0.0.1:8080"
EXAMPLES = [
    block
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    if ADDRESS in block
]


class EndOfExample(Exception):
    """Ends an example that would wait for more events."""


@pytest.mark.parametrize("number", range(3))
def test_an_example_prints_an_event(broker: BrokerProcess, number: int) -> None:
    assert len(EXAMPLES) == 3
    if "consume" in EXAMPLES[number]:  # it continues those with curl
        queue = {"id": "jobs", "filter": "mag >= 5"}
        assert ask(f"{broker.url}/v1/subscriptions", "POST", queue).status == 201
        assert ask(f"{broker.url}/v1/events", "POST", {"mag": 6.1}).status == 200
    printed = []

    def print_first(value: dict[str, object]) -> None:
        printed.append(value["mag"])
        raise EndOfExample

    code = compile(EXAMPLES[number].replace(ADDRESS, broker.url), "docs/server.md", "exec")
    with pytest.raises(EndOfExample):
        exec(code, {"print": print_first})
    assert printed == [6.1]
