"""Short runs of every fuzzer, long ones for `make soak`, and that a fuzzer finds what it looks for."""

from __future__ import annotations

import os
import signal

import pytest

from tests.fuzz import bodies, configurations, frames, geometry, harness, language, mqtt, neighbours, peers, tokens
from tests.fuzz.harness import Area

#: The areas with the inputs of a short run: about a second each.
SHORT = {
    bodies.AREA: 250,
    configurations.AREA: 120,
    frames.AREA: 1_500,
    geometry.AREA: 700,
    mqtt.AREA: 2_000,
    neighbours.AREA: 100,
    peers.AREA: 100,
    tokens.AREA: 250,
}

#: Inputs of one part of a long run.
PART = 100_000

#: Parts of 100,000 inputs: ten million frames, bodies and texts; configurations once.
LONG = [(frames.AREA, part) for part in range(100)] + [(bodies.AREA, part) for part in range(100)]
LONG += [
    (area, 0) for area in (configurations.AREA, geometry.AREA, mqtt.AREA, neighbours.AREA, peers.AREA, tokens.AREA)
]


@pytest.mark.parametrize("area", SHORT, ids=lambda area: area.name)
def test_a_short_run_finds_nothing(area: Area) -> None:
    outcomes, finding = harness.fuzz(area, seed=20261117, inputs=SHORT[area])
    assert finding is None, finding.line(area.name, 20261117)
    assert len(outcomes) > 1  # neither all is refused nor all taken


@pytest.mark.soak
@pytest.mark.parametrize(("area", "part"), LONG, ids=lambda value: getattr(value, "name", value))
def test_a_long_run_finds_nothing(area: Area, part: int) -> None:
    _, finding = harness.fuzz(area, seed=7, inputs=PART, first=part * PART)
    assert finding is None, finding.line(area.name, 7)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(100))
def test_ten_million_texts_find_nothing(part: int) -> None:
    _, _, finding = language.fuzz(float("inf"), seed=part, most=PART)
    assert finding is None, finding.line()


def faulty(number: int) -> str:
    if number == 3:
        raise KeyError("of ours")
    return "taken"


def slow(number: int) -> str:
    sum(range(4_000_000 if number == 3 else 1))
    return "taken"


def deadly(number: int) -> str:
    if number == 3:
        os.kill(os.getpid(), signal.SIGSEGV)
    return "taken"


def numbered(treat: object) -> Area:
    return Area("bodies", lambda rng: rng.randrange(10), treat)  # type: ignore[arg-type]


@pytest.mark.parametrize(("treat", "problem"), [(faulty, "KeyError"), (slow, "units of work")])
def test_an_exception_and_a_slow_input_are_findings(
    treat: object, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "SLOW_UNITS", 2.0)
    _, finding = harness.fuzz(numbered(treat), seed=1, inputs=200)
    assert finding is not None
    assert (finding.source, problem in finding.problem) == (3, True)
    assert harness.source_of(numbered(treat), 1, finding.number) == 3  # the number makes it again


def test_a_process_that_dies_is_a_finding(capfd: pytest.CaptureFixture[str]) -> None:
    assert harness.main(numbered(deadly), ["60", "--seed", "1", "--inputs", "200"]) == 1
    shown = capfd.readouterr().out
    assert "the process died of signal 11" in shown
    first = int(shown.partition("--first ")[2].split()[0])
    assert harness.source_of(numbered(deadly), 1, first) == 3


def test_a_run_without_findings_says_what_came_of_the_inputs(capfd: pytest.CaptureFixture[str]) -> None:
    assert harness.main(numbered(lambda number: "even" if number % 2 == 0 else "odd"), ["60", "--inputs", "50"]) == 0
    assert "50 inputs" in capfd.readouterr().out


def test_an_input_depends_on_the_seed_and_its_number_alone() -> None:
    made = [harness.source_of(bodies.AREA, 5, number) for number in (1, 2, 1)]
    assert made[0] == made[2] != made[1]
