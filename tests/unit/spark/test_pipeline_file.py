"""A pipeline's file: what it says, and what is said when it is wrong."""

from __future__ import annotations

import datetime as dt
import tomllib
from pathlib import Path

import pytest

from tamis.errors import ModelError
from tamis.model.schema import Schema
from tamis.model.types import Number, Region, Timestamp, Vector
from tamis.spark.pipelines.pipeline_file import EXAMPLE, Pipeline

SMALL = '[subscriptions]\npath = "s.jsonl"\n[events]\npath = "e.jsonl"\n'


def read(folder: Path, text: str) -> Pipeline:
    file = folder / "alerts.toml"
    file.write_text(text, encoding="utf-8")
    return Pipeline.from_file(file)


def test_paths_are_placed_beside_the_file(tmp_path: Path) -> None:
    pipeline = read(tmp_path, SMALL)
    assert pipeline.name == "alerts"
    assert pipeline.events.path == str(tmp_path / "e.jsonl")
    assert pipeline.subscriptions.path == str(tmp_path / "s.jsonl")
    assert (pipeline.output, pipeline.snapshot) == (str(tmp_path / "output"), str(tmp_path / "snapshots"))


def test_an_address_and_an_absolute_path_stay(tmp_path: Path) -> None:
    text = SMALL.replace("e.jsonl", "s3a://bucket/e.jsonl").replace("s.jsonl", "/data/s.jsonl")
    pipeline = read(tmp_path, text)
    assert (pipeline.events.path, pipeline.subscriptions.path) == ("s3a://bucket/e.jsonl", "/data/s.jsonl")


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    pipeline = read(
        tmp_path,
        SMALL
        + 'id = "n"\npayload = ["at", "place"]\nnamespace = "team"\n'
        + '[subscriptions.bounds]\nmag = ["from", ""]\nplace = "place"\n'
        + '[schema]\nmag = "number"\nat = { type = "timestamp", zone = "UTC" }\nwhere = "region"\n'
        + 'look = { type = "vector", n = 3 }\n'
        + '[options]\nmaster = "local[3]"\nnow = 2026-01-01T00:00:00Z\npart_size = 10\n'
        + 'spark = { "spark.driver.memory" = "2g" }\n',
    )
    assert pipeline.declared() == Schema(
        {"mag": Number(), "at": Timestamp("UTC"), "where": Region(), "look": Vector(3)}
    )
    assert pipeline.subscriptions.typed_columns == {"mag": ("from", None), "place": "place"}
    assert pipeline.options.now == dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert [name for _, name in pipeline.events.columns()] == ["n", "at", "place", "team"]


def test_the_example_is_a_pipeline_with_or_without_its_comments(tmp_path: Path) -> None:
    plain = read(tmp_path, EXAMPLE)
    keys = [line[2:] for line in EXAMPLE.splitlines() if line.startswith("# ") and ("=" in line or line[2] == "[")]
    assert len(keys) > 15
    everything = "\n".join(line[2:] if line[2:] in keys else line for line in EXAMPLE.splitlines())
    full = read(tmp_path, everything)
    assert plain.events.path == full.events.path
    assert plain.output == full.output  # what stands in a comment is the default
    assert plain.options.part_size == full.options.part_size
    assert set(tomllib.loads(everything)) == set(Pipeline.__struct_fields__)


def test_names_of_tables_are_not_paths(tmp_path: Path) -> None:
    named = 'format = "table"\npath = "rules"\n'
    pipeline = read(tmp_path, f'[subscriptions]\n{named}[events]\npath = "e.csv"\n[deliveries]\n{named}')
    assert pipeline.deliveries is not None
    assert (pipeline.subscriptions.path, pipeline.deliveries.path) == ("rules", "rules")
    assert pipeline.events.path == str(tmp_path / "e.csv")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[events\n", "alerts.toml: not TOML: "),
        ('[events]\npath = "e.csv"\n', "alerts.toml: the file needs the table 'subscriptions'"),
        ("[subscriptions]\n[events]\npath = 'e'\n", "alerts.toml: [subscriptions] needs the key 'path'"),
        (
            SMALL + 'fromat = "csv"\n',
            "alerts.toml: [events] has no key 'fromat' (did you mean 'format'?); it has path,",
        ),
        ("ouput = 'x'\n" + SMALL, "alerts.toml: the file has no key 'ouput' (did you mean 'output'?); it has"),
        (SMALL + "id = 5\n", "alerts.toml: events.id: expected str, got int"),
        (SMALL + 'payload = "at"\n', "alerts.toml: events.payload: expected array, got str"),
        (
            SMALL + 'format = "avro"\n',
            "events.format: there is no format 'avro'; choose from parquet, geoparquet, jsonl",
        ),
        (SMALL + '[schema]\nmag = "integer"\n', "attribute 'schema.mag': expected"),
        (SMALL + '[schema]\nlook = { type = "vector" }\n', "attribute 'schema.look': a vector does not take nothing"),
        (SMALL + "[options]\npart_size = 0\n", "options.part_size: 0 is not a size"),
        (SMALL + "[options]\nnow = 'soon'\n", "options.now: invalid RFC3339"),
        (SMALL + 'variant = "body"\n', "events.variant: whole events in one column need their attributes in [schema]"),
        (SMALL.replace("e.jsonl", ""), "events.path: a path is not empty"),
        (SMALL + '[deliveries]\nformat = "avro"\npath = "x"\n', "deliveries.format: there is no sink 'avro' for a run"),
        (
            SMALL + '[deliveries]\nformat = "kafka"\npath = "h:1/t"\n',
            "from parquet, jsonl, csv, delta, iceberg, table",
        ),
        (SMALL + '[deliveries]\nformat = "table"\npath = "a b"\n', "'a b' is not the name of a table"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ModelError) as raised:
        read(tmp_path, text)
    assert problem in str(raised.value)


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "alerts.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ModelError, match="alerts.toml: not TOML"):
        Pipeline.from_file(file)
