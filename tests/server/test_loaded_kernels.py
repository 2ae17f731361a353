"""A broker loads its kernels before requests need them: none is compiled or read in the event loop (promise S26)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tamis.engine import warm_up
from tamis.engine.warm_up import loading_steps
from tests.loaded_kernels import loaded_kernels

#: One filter and one event of each kind of condition, apart from those that a broker loads kernels for.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "ranges": ("low >= {0} AND high < {0} + 7 AND mid > 3", {"low": 5, "high": 4, "mid": 4}),
    "strings": ("city = 'c{0}' AND mid > {0}", {"city": "c3", "mid": 9}),
    "sets": ("city IN ('c{0}', 'd{0}') OR mid > {0}", {"city": "c3", "mid": 9}),
    "likes": ("text LIKE '%needle{0}%' OR text LIKE 'x{0}%'", {"text": "hay needle3 hay"}),
    "folded": ("text ILIKE '%Needle{0}' AND city = 'c{0}'", {"text": "hay NEEDLE3", "city": "c3"}),
    "expressions": ("text MATCHES 'n(e|x)+dle{0}'", {"text": "hay needle3 hay"}),
    "regions": (
        "S_INTERSECTS(shape, POLYGON(({0} 0, {0}.5 0, {0}.5 2, {0} 0)))",
        {"shape": "POLYGON((3 0, 4 0, 4 1, 3 0))"},
    ),
    "points": ("S_WITHIN(shape, POLYGON(({0} 0, {0}.5 0, {0}.5 2, {0} 0)))", {"shape": "POINT(3.4 0.5)"}),
    "circles": ("S_DWITHIN(shape, POINT(0.{0} 1), 500, 'm')", {"shape": "POINT(0.3 1)"}),
    "balls": ("V_WITHIN(face, ({0}, 0.5), 0.25)", {"face": [3.0, 0.6]}),
    "trees": ("(low > {0} OR high < 4) AND (mid = {0} OR low < 9) AND (city = 'a' OR mid > 3)", {"low": 5, "mid": 4}),
}

#: Loaded kernels are counted in a process of its own: the tests before this one have loaded them all.
_PROGRAM = "from tests.server.test_loaded_kernels import main; main()"


def main() -> None:
    """Print the kernels that a broker loads while it answers, after it has loaded what it knows of."""
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(_story(Path(directory)))


async def _story(directory: Path) -> None:
    from tests.attacks.stalls import watched_broker

    for load in loading_steps():
        load()
    before = loaded_kernels()
    async with watched_broker(directory) as broker:
        for kind, (template, event) in KINDS.items():
            for count in (2, 400):
                bodies = [{"filter": template.format(i), "id": f"{count}-{i}", "namespace": kind} for i in range(count)]
                answer = await broker.ask("/v1/subscriptions", "POST", bodies)
                assert answer.status == 201, answer.body
                for events in (event, [event] * 60):
                    answer = await broker.ask(f"/v1/events?namespace={kind}", "POST", events)
                    assert answer.status == 200, answer.body
    for name in sorted(loaded_kernels() - before):
        print(name)


@pytest.mark.slow
def test_no_kernel_is_loaded_by_a_request() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_kernels_are_loaded_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for load in loading_steps():
        load()
    monkeypatch.setattr(warm_up, "_match", lambda *_: pytest.fail("loaded again"))
    for load in loading_steps():
        load()


def test_the_parts_of_a_compilation_load_what_a_broker_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[tuple[str, str]] = []
    monkeypatch.setattr(warm_up, "_load", lambda name: loaded.append(("kind", name)))
    monkeypatch.setattr(warm_up, "_load_packed", lambda name: loaded.append(("packed", name)))
    for load in loading_steps():
        load()
    by_broker, loaded[:] = sorted(loaded), []
    for compile_part in warm_up.PARTS.values():
        compile_part()
    assert sorted(loaded) == by_broker
    assert len(set(by_broker)) == len(by_broker) >= len(KINDS)


def test_a_mark_says_that_the_cache_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "mark_path", lambda user: tmp_path / user)
    assert not warm_up.are_kernels_compiled()
    warm_up.leave_mark()
    assert warm_up.are_kernels_compiled()
    monkeypatch.setattr(warm_up, "mark_path", lambda user: None)
    assert not warm_up.are_kernels_compiled()  # without a cache each process compiles
