"""``tamis covers`` and ``tamis reduce``: what they show can be published, what they write can be read."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

from typer.testing import CliRunner, Result

import tamis
from tamis.cli.main import app


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def reduced(tmp_path: Path, rows: dict[int, str]) -> list[str]:
    """Reduce a file and what became of it; return the filters that were written."""
    original, first, second = (tmp_path / name for name in ("given.jsonl", "first.jsonl", "second.jsonl"))
    original.write_text("".join(json.dumps({"id": id, "filter": text}) + "\n" for id, text in rows.items()))
    shown = run("reduce", original, "--out", first)
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) < 120
    assert run("reduce", first, "--out", second).exit_code == 0
    assert len(first.read_text().splitlines()) == len(second.read_text().splitlines())
    return [json.loads(line)["filter"] for line in first.read_text().splitlines()]


def test_a_moment_without_a_text_is_shown_as_microseconds() -> None:
    result = run("covers", "at >= TIMESTAMP('0001-01-01T00:00:00Z')", "at IS NOT NULL", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["witness"] == {"at": -62_135_596_800_000_001}
    shown = run("covers", "at >= TIMESTAMP('2018-01-01T00:00:00Z')", "at IS NOT NULL")
    assert (shown.exit_code, '"at":"' in shown.stdout) == (1, True)


def test_a_long_decimal_is_a_number_with_all_its_digits() -> None:
    apart = "x <= 0.1 OR x >= 0.10000000000000002"
    for result in (run("covers", apart, "x IS NOT NULL", "--json"), run("covers", apart, "x IS NOT NULL")):
        document = json.loads(result.stdout[result.stdout.index("{") :], parse_float=Decimal)
        assert document.get("witness", document) == {"x": Decimal("0.10000000000000001")}
    plain = run("covers", "x < 0.1 OR x >= 0.10000000000000002", "x IS NOT NULL", "--json")
    assert json.loads(plain.stdout)["witness"] == {"x": 0.1}


def test_reduced_files_can_be_read(tmp_path: Path) -> None:
    assert len(reduced(tmp_path, {i: f"x = {2 * i}" for i in range(10_500)})) == 2
    assert 1 < len(reduced(tmp_path, {i: f"x BETWEEN {10 * i} AND {10 * i + 1}" for i in range(1_200)})) < 10


def test_a_subscription_that_grows_when_simplified_is_written_as_it_came(tmp_path: Path) -> None:
    dense = " OR ".join(f"x<{i} AND x>{i - 0.5}" for i in range(100, 800))
    assert len(dense) < 16_384
    [text] = reduced(tmp_path, {1: dense})
    assert tamis.equivalent(text, dense)
