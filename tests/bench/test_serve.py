"""The benchmark of a broker runs, and what it delivers is checked; no figure decides anything here."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tamis.errors import InvariantError
from tamis_bench.serving.clients import Arrivals
from tamis_bench.serving.publishing import Audience, Run
from tamis_bench.serving.serve import Load, measure_serve
from tests.server.mosquitto import needs_mosquitto

FEW = Load(n=300, readers=3, events=600, singles=40, seconds=0.2)


def test_every_number_of_a_broker_is_there() -> None:
    rows = {row.what: row for row in measure_serve(FEW, ["ours"])}
    assert list(rows) == [
        *("serve load", "serve", "serve cpu", "serve clients cpu", "serve single", "serve single cpu"),
        *("serve p50", "serve p99", "serve p99 beside", "serve p99 stalled", "serve memory"),
    ]
    assert all(row.rate is not None and row.rate >= 0 for row in rows.values())
    assert rows["serve"].as_json()["unit"] == "events/s"


@needs_mosquitto
def test_every_number_of_mosquitto_is_there() -> None:
    rows = list(measure_serve(FEW, ["mosquitto"]))
    assert [row.what for row in rows] == ["serve single", "serve p50", "serve p99"]
    assert all(row.rate for row in rows)


NATS = """#!{python}
import asyncio, sys

async def serve(reader, writer):
    mine = set()
    writer.write(b'INFO {{}}\\r\\n')
    while line := await reader.readline():
        words = line.split()
        if words[0] == b"SUB":
            readers.setdefault(words[1].rpartition(b".")[0], []).append(writer)
        elif words[0] == b"PING":
            writer.write(b"PONG\\r\\nPING\\r\\n")
        elif words[0] == b"PUB":
            body = await reader.readexactly(int(words[2]) + 2)
            for one in readers.get(words[1].rpartition(b".")[0], ()):
                one.write(b"MSG %b 1 %b\\r\\n%b" % (words[1], words[2], body))

async def main():
    async with await asyncio.start_server(serve, sys.argv[2], int(sys.argv[4])) as server:
        await server.serve_forever()

readers = {{}}
asyncio.run(main())
"""


def test_the_client_of_nats_speaks_its_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for nats-server: it passes messages on by subject, and speaks no more than the protocol needs."""
    program = tmp_path / "nats-server"
    program.write_text(NATS.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    rows = list(measure_serve(FEW, ["nats"]))
    assert [row.what for row in rows] == ["serve single", "serve p50", "serve p99"]
    assert all(row.rate for row in rows)


@pytest.mark.skipif(
    (shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/sbin")) is None,
    reason="not run: nats-server is not installed (make setup-ci)",
)
def test_every_number_of_a_real_nats_server_is_there() -> None:
    rows = list(measure_serve(FEW, ["nats"]))
    assert [row.what for row in rows] == ["serve single", "serve p50", "serve p99"]
    assert all(row.rate for row in rows)


def test_what_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    rows = list(measure_serve(FEW, ["mosquitto", "nats"]))
    assert [(row.system, row.rate) for row in rows] == [("mosquitto", None), ("nats", None)]
    assert all("is not installed" in row.note for row in rows)


def test_a_copy_too_few_or_too_many_stops_it() -> None:
    arrivals = Arrivals.__new__(Arrivals)
    run = Run(None, lambda indices: [], [Audience(arrivals, [1, 0, 2])], published=[0, 1, 2])  # type: ignore[arg-type]
    arrivals.seen = [(1, 0.0), (3, 0.0), (3, 0.1)]
    run.check()
    arrivals.seen = [(1, 0.0), (2, 0.0), (3, 0.1)]
    with pytest.raises(InvariantError, match="1 copies are missing, 1 are too many"):
        run.check()
