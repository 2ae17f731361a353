"""Attack: geometry that is nested a hundred thousand levels deep.

The readers of GEOS recurse once per level of a collection and overflow the stack, which ends the process with
SIGSEGV; no Python code can catch that. Every door that reads WKT or WKB must refuse such a value before GEOS sees it,
as one bad value: the event is refused, the row is quarantined, the process goes on.
"""

from __future__ import annotations

import struct
import subprocess
import sys

import msgspec
import pytest

from tamis.routing import messages as m
from tests.attacks.wire import assert_serves, dialled, run
from tests.server.processes import BrokerProcess, ask

LEVELS = 40_000

PREPARE = f"""
import struct
closed_wkt = "GEOMETRYCOLLECTION(" * {LEVELS} + "POINT(0 0)" + ")" * {LEVELS}
curves_wkt = "MULTISURFACE(CURVEPOLYGON(COMPOUNDCURVE(" * {LEVELS // 3}
point = struct.pack("<BIdd", 1, 1, 0, 0)
wkbs = {{
    "collection": struct.pack("<BII", 1, 7, 1) * {LEVELS} + point,
    "big-endian": struct.pack(">BII", 0, 7, 1) * {LEVELS} + point,
    "iso z": struct.pack("<BII", 1, 1007, 1) * {LEVELS} + point,
    "ewkb z": struct.pack("<BII", 1, 0x80000007, 1) * {LEVELS} + point,
    "ewkb srid": struct.pack("<BIII", 1, 0x20000007, 4326, 1) * {LEVELS} + point,
    "multipolygon": struct.pack("<BII", 1, 6, 1) * {LEVELS} + point,
    "multipoint": struct.pack("<BII", 1, 4, 1) * {LEVELS} + point,
    "in multipolygon": struct.pack("<BII", 1, 6, 1) + struct.pack("<BII", 1, 7, 1) * {LEVELS} + point,
    "surface": struct.pack("<BII", 1, 12, 1) * {LEVELS} + point,
}}
wkbs["hexadecimal"] = wkbs["collection"].hex().upper().encode()
def refused(door, value):
    try:
        door(value)
    except Exception as error:
        return type(error).__name__
    return "taken"
"""

#: Each door with a program that puts every nested value through it, and what the program must print.
DOORS = {
    "a value of an event": (
        (
            "import tamis\n"
            "schema = tamis.Schema({'g': tamis.Region()})\n"
            "for value in (closed_wkt, curves_wkt, *wkbs.values()):\n"
            "    print(refused(schema.event, {'g': value}))"
        ),
        {"EventError"},
    ),
    "the operand of a filter": (
        (
            "from tamis.model.shapes import operand\n"
            "for value in (closed_wkt, curves_wkt, *wkbs.values()): print(refused(operand, value))"
        ),
        {"UnfitError", "LimitError"},
    ),
    "a column": (
        (
            "import pyarrow as pa\n"
            "import tamis\n"
            "from tamis.model.columns import column_from\n"
            "for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):\n"
            "    array = pa.array([b'x', point, *wkbs.values(), None, point], kind)[1:]\n"
            "    column = column_from('g', tamis.Region(), array)\n"
            "    last = len(array) - 1\n"
            "    print(sorted(column.bad) == list(range(1, last - 1)), column.value(0), column.value(last))"
        ),
        {"True POINT (0 0) POINT (0 0)"},
    ),
    "a column of text": (
        (
            "import tamis\n"
            "from tamis.model.columns import column_from\n"
            "print(sorted(column_from('g', tamis.Region(), [closed_wkt, 'POINT (0 0)', curves_wkt]).bad))"
        ),
        {"[0, 2]"},
    ),
    "the type of a column": (
        (
            "import pyarrow as pa\n"
            "import tamis\n"
            "for value in wkbs.values(): print(tamis.Schema.from_arrow(pa.table({'g': pa.array([value])})))"
        ),
        {"Schema({})"},
    ),
    "a payload that a client shows": (
        (
            "import msgspec, tamis\n"
            "from tamis.runtime.event_json import payload_as_json\n"
            "for value in wkbs.values():\n"
            "    payload = msgspec.msgpack.encode({'g': value})\n"
            "    print(refused(lambda payload: payload_as_json(payload, tamis.Schema()), payload))"
        ),
        {"EventError"},
    ),
    "a row that Spark publishes": (
        (
            "from tamis.spark.broker.rows import event_of\n"
            "for value in wkbs.values(): print(refused(event_of, {'g': value}))"
        ),
        {"EventError"},
    ),
    "the regions of a join in Spark": (
        (
            "import pyarrow as pa\n"
            "from tamis.spark.joins.joining import Grid, bounds_of_regions, relate, spread_over_grid\n"
            "grid, form = Grid(0, 0, 1), pa.schema([])\n"
            "for value in (closed_wkt, curves_wkt, *wkbs.values()):\n"
            "    kind = pa.large_string() if isinstance(value, str) else pa.binary()\n"
            "    column = pa.array([value], kind)\n"
            "    batch = pa.RecordBatch.from_arrays([pa.array(['bad']), column], names=['id', 'region'])\n"
            "    print(refused(lambda value: list(bounds_of_regions(iter([batch]), name='region')), value))\n"
            "    spread = spread_over_grid(iter([batch]), grid=grid, name='region', form=form)\n"
            "    print(refused(lambda value: list(spread), value))\n"
            "    names = ['left_id', 'left_region', 'right_id', 'right_region']\n"
            "    pairs = pa.RecordBatch.from_arrays([*batch.columns, *batch.columns], names=names)\n"
            "    print(refused(lambda value: list(relate(iter([pairs]), wanted=frozenset(), form=form)), value))"
        ),
        {"TableError"},
    ),
    "two regions in Spark's SQL": (
        (
            "import pyarrow as pa\n"
            "from tamis.spark.functions.evaluating import relation_of\n"
            "for value in (closed_wkt, curves_wkt, *wkbs.values()):\n"
            "    print(refused(lambda value: relation_of(pa.array([value]), pa.array([value])), value))"
        ),
        {"TableError"},
    ),
    "an event that Spark reads": (
        (
            "from pyspark.sql import types as T\n"
            "from tamis.spark.broker.rows import batch_of\n"
            "columns = T.StructType([T.StructField('g', T.BinaryType())])\n"
            "for value in (closed_wkt, curves_wkt):\n"
            "    print(refused(lambda value: batch_of([{'id': '1', 'event': {'g': value}}], columns), value))"
        ),
        {"EventError"},
    ),
    "a cell on the terminal": (
        (
            "from tamis.cli.screen import jsonable\n"
            "for value in wkbs.values(): print(set(jsonable(value)) <= set(map(chr, range(43, 123))))"
        ),
        {"True"},
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_nested_geometry(door: str) -> None:
    program, expected = DOORS[door]
    done = subprocess.run([sys.executable, "-c", PREPARE + program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-500:]}"
    lines = set(done.stdout.splitlines())
    assert lines
    assert lines <= expected


@pytest.fixture
def learned(broker: BrokerProcess) -> BrokerProcess:
    """A broker that has learned that `g` is a region, which a subscription asks for."""
    taught = ask(f"{broker.url}/v1/events", "POST", {"g": {"type": "Point", "coordinates": [0, 0]}})
    assert taught.status == 200, taught.body
    made = ask(f"{broker.url}/v1/subscriptions", "POST", {"id": "near", "filter": "S_INTERSECTS(g, BBOX(0, 0, 1, 1))"})
    assert made.status in (201, 409), made.body
    return broker


WKT = {
    "closed": "GEOMETRYCOLLECTION(" * LEVELS + "POINT(0 0)" + ")" * LEVELS,
    "unclosed": "GEOMETRYCOLLECTION(" * LEVELS,
    "blanks first": "  \n geometrycollection Z (" * LEVELS,
    "geojson": {
        "type": "GeometryCollection",
        "geometries": [{"type": "GeometryCollection", "geometries": [{"type": "Point", "coordinates": [0, 0]}]}],
    },
}


@pytest.mark.parametrize("form", WKT)
@pytest.mark.parametrize("door", ["events", "matches", "explain"])
def test_a_request_with_nested_text_is_refused_by_itself(learned: BrokerProcess, door: str, form: str) -> None:
    body = {"g": WKT[form]}
    if door == "matches":
        body = {"event": body}
    if door == "explain":
        body = {"filter": "g IS NOT NULL", "event": body}
    answer = ask(f"{learned.url}/v1/{door}", "POST", body)
    assert 400 <= answer.status < 500, answer.body
    run(assert_serves(learned))


def test_frames_with_nested_bytes_are_refused_by_themselves(learned: BrokerProcess) -> None:
    nested = [struct.pack("<BII", 1, kind, 1) * LEVELS for kind in (4, 6, 7, 12, 0x80000007, 1007)]

    async def story() -> None:
        async with dialled(learned) as wire:
            for number, value in enumerate(nested):
                payload = msgspec.msgpack.encode({"g": value})
                await wire.say(m.encode(m.Publish(m.Published(m.EventId("", 1, number), "default", payload))))
                refusal = await wire.refusal()
                assert refusal.event == m.EventId("", 1, number)
                assert "'g'" in refusal.reason
        await assert_serves(learned)

    run(story())
