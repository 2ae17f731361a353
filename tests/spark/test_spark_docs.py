"""The page about Spark tells the truth: its Python runs as it stands, top to bottom, and so do its commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tamis.cli.main import app
from tamis.spark.pipelines.pipeline_file import (
    DeliverySink,
    EventSource,
    Options,
    Pipeline,
    ReduceOptions,
    SubscriptionSource,
)

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")


def blocks_of(language: str) -> list[str]:
    """Return the blocks of a language, from top to bottom."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def one_verb() -> str:
    """Return the example of the one verb and the SQL below it; they take the session that is there."""
    text = "\n".join(blocks_of("python")[:2])
    assert "spark = session()  # or a session of your own\n" in text
    return text.replace("spark = session()  # or a session of your own\n", "")


def check_one_verb(printed: str) -> None:
    """Demand the deliveries of the example, as rows, as a column and in SQL, and what a function of SQL says."""
    for delivery in (r"1\|\s*alice", r"1\|\s*bob", r"2\|\s*bob"):
        assert len(re.findall(rf"\|\s*{delivery}\|", printed)) == 2, printed  # by `match`, and in SQL
    assert re.search(r"\|\s*1\|\[alice, bob\]\|", printed)
    assert re.search(r"\|\s*yes\|\n\+-*\+\n\|true\|", printed)


def test_the_example_of_the_one_verb(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(one_verb(), "docs/spark.md", "exec"), {"spark": spark})
    check_one_verb(capsys.readouterr().out)


def test_the_python_of_the_page(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = blocks_of("python")
    assert len(blocks) == 10
    exec(compile("\n".join(blocks), "docs/spark.md", "exec"), {})
    printed = capsys.readouterr().out
    assert re.search(r"\|\s*1\|\s*alice\|", printed)
    assert re.search(r"\|bob\s*\|expected", printed)
    assert re.search(r"\|\s*1\|\[alice, bob\]\|", printed)  # a column of ids
    assert re.search(r"\|\s*yes\|\n\+-*\+\n\|true\|", printed)
    assert "1 attribute 'price': expected a number, not a string (got 'much')\n" in printed
    assert "synced/v000001 2 0 0 0 0\n" in printed
    assert "\n0 0 1 1\n" in printed  # alice left, carol stayed
    assert "[(0, 'v000003', 1, 0)]\n" in printed  # dave came; alice was gone already
    assert "\n1 1\n" in printed
    assert "\n0 v000001 2 1 0 " in printed
    assert "\n1\n3 2 1\n" in printed  # who is left after an update; what links carry
    assert re.search(r"\|\s*default\|\s*narrow\|\s*covered\|\s*\[wide\]\|", printed)


def test_every_block_of_the_page_is_checked() -> None:
    assert set(re.findall(r"^ *```(.+)$", PAGE, re.MULTILINE)) == {"python", "sh", "toml"}


def test_the_commands_of_the_page(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the smallest pipeline of the page; the demonstration itself runs in test_pipeline.py."""
    monkeypatch.chdir(tmp_path)
    [commands], [smallest] = blocks_of("sh"), blocks_of("toml")
    lines = [shlex.split(line, comments=True) for line in commands.splitlines()]
    assert {program for program, *_ in lines} == {"tamis"}
    demo, init, run = (arguments for _, *arguments in lines)

    def output_of(*arguments: str) -> str:
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        return done.output

    assert "tamis-demo" in output_of(*demo, "--help")
    output_of(*init)
    file = tmp_path / "alerts.toml"
    Pipeline.from_file(file)
    file.write_text(smallest, encoding="utf-8")
    subscription = re.search(r"# (\{.*\})$", smallest, re.MULTILINE)
    assert subscription is not None
    (tmp_path / "subscriptions.jsonl").write_text(f"{subscription[1]}\n", encoding="utf-8")
    events = pa.table({"event_id": ["near", "deep", "weak"], "mag": [5.5, 6.0, 4.0], "depth": [10.0, 90.0, 10.0]})
    pq.write_table(events, tmp_path / "events.parquet")
    output_of(*run)
    deliveries = pq.read_table(tmp_path / "output" / "deliveries").to_pylist()
    assert deliveries == [{"event_id": "near", "subscription_id": "alice"}]


def test_the_page_names_every_key() -> None:
    sections = {"subscriptions": SubscriptionSource, "events": EventSource, "reduce": ReduceOptions, "options": Options}
    sections["deliveries"] = DeliverySink
    for section, kind in sections.items():
        for key in kind.__struct_fields__:
            assert f"`{section}.{key}`" in PAGE or f"`.{key}`" in PAGE, f"{section}.{key}"
    for key in set(Pipeline.__struct_fields__) - sections.keys():
        assert f"`{key}`" in PAGE or f"`[{key}]`" in PAGE
