"""A short run of the fuzzer, and that the fuzzer finds what it looks for."""

from __future__ import annotations

import re

import pytest

from tests.fuzz import language as fuzz_language


def test_some_hundred_sources_find_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz_language.main(["inf", "--seed", "20260101", "--sources", "400"]) == 0
    out = capsys.readouterr().out
    counts = {name: int(count.replace(",", "")) for count, name in re.findall(r"^ +([\d,]+)  (.+)$", out, re.MULTILINE)}
    for kind in ("text", "JSON"):
        accepted = counts[f"{kind}: accepted"]
        assert accepted >= 20, out
        assert sum(count for name, count in counts.items() if name.startswith(kind)) - accepted >= 20, out


@pytest.mark.parametrize(("fault", "kind"), [(RecursionError(), "RecursionError"), (KeyError("x"), "KeyError")])
def test_a_planted_fault_is_found_and_made_short(
    fault: Exception, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def faulty(source: object) -> None:
        if "((" in str(source):
            raise fault

    monkeypatch.setattr(fuzz_language, "STEPS", (faulty,))
    assert fuzz_language.main(["30", "--seed", "1"]) == 1
    assert f"parse('((')  # faulty: {kind}" in capsys.readouterr().out


def test_a_slow_input_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(source: object) -> None:
        if "NOT" in str(source):
            sum(range(60_000_000))

    monkeypatch.setattr(fuzz_language, "STEPS", (slow,))
    assert fuzz_language.treated("NOT a") == ("accepted", "slow: slower than 50 ms")
    assert fuzz_language.treated("a") == ("accepted", None)
