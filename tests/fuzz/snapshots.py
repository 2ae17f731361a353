"""Damage saved engines as an attacker would, and see that each is refused or answers.

``python -m tests.fuzz.snapshots SECONDS [--seed N] [--changes N]`` saves a few engines with every structure in them.
Then it changes one file or array of a copy at a time: bytes, lengths, types, shapes, numbers, columns, the manifest.
Checksums are computed again, so that only the checks of structure stand between a file and the kernels. What opens is
used: it matches, explains, adds, removes, merges and saves. That happens in other processes. A process that dies, an
exception that is no `TamisError`, and a change that takes more than a minute are findings; each is printed with the
numbers that make it again, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import tamis
from tamis.engine.snapshot.array_file import map_arrays, write_arrays
from tamis.engine.snapshot.manifest import MANIFEST, measure
from tamis.errors import TamisError

#: Seconds after which a change counts as a hang.
PATIENCE = 60.0

Arrays = dict[str, np.ndarray[Any, Any]]
Document = dict[str, Any]


class Change(NamedTuple):
    """A number of a change, and what it did."""

    number: int
    story: str


# ---- the engines that are saved


def texts_engine() -> tamis.Engine:
    """Return an engine with a row in every place of the packed matcher: boxes, texts, regions, balls, trees, none."""
    engine = tamis.Engine(
        tamis.Schema(
            {"price": tamis.Number(), "symbol": tamis.String(), "area": tamis.Region(), "look": tamis.Vector(3)}
        )
    )
    for i in range(24):
        engine.subscribe(f"price < {i} AND symbol = 'S{i % 7}'", id=f"plain{i}", metadata={"i": str(i)})
        engine.subscribe(f"price > {i} AND symbol LIKE 'a%{i % 5}'", id=f"like{i}", expires="2999-01-01T00:00:00Z")
        triangle = f"POLYGON(({i} 0, {i + 9} 0, {i} 9, {i} 0))"
        engine.subscribe(f"S_INTERSECTS(area, {triangle}) AND price > {i}", id=f"region{i}")
        engine.subscribe(f"S_DISJOINT(area, {triangle}) OR price = {i}", id=1000 + i)
        engine.subscribe(f"V_WITHIN(look, ({i}, 0, 0), 3) AND price > 1", id=f"mixed{i}")
        engine.subscribe(f"V_WITHIN(look, ({i}, 1, 0), 2)", id=f"ball{i}")
    engine.subscribe("symbol IS NULL OR symbol <> 'S1'", id="loose")
    engine.subscribe("price IS NULL OR price > 50", id="tree")
    engine.subscribe("symbol IS NULL", id="null")
    ring = ", ".join(f"{40 + 9 * np.cos(k / 7):.6f} {9 * np.sin(k / 7):.6f}" for k in range(43))
    engine.subscribe(f"S_WITHIN(area, POLYGON(({ring}, {ring.split(',')[0]})))", id="round")
    engine.unsubscribe("like3")
    engine.unsubscribe("region5")
    return engine


def boxes_engine() -> tamis.Engine:
    """Return an engine of boxes in bulk: a tree, pair grids, and bitmaps over many axes; ids are ranges with gaps."""
    engine = tamis.Engine()
    random_ = np.random.default_rng(7)
    low = random_.uniform(0, 90, (700, 3))
    engine.subscribe_boxes(["x", "y", "z"], low, low + 9)
    many = [f"a{k}" for k in range(12)]
    lows, highs = np.full((1500, 12), -np.inf), np.full((1500, 12), np.inf)
    for row in range(1500):
        for axis in random_.choice(12, 3, replace=False):
            lows[row, axis] = random_.uniform(0, 90)
            highs[row, axis] = lows[row, axis] + 9
    engine.subscribe_boxes(many, lows, highs, namespace="many")
    engine.subscribe_balls("v", random_.normal(size=(600, 2)), np.full(600, 0.3))
    for id in (3, 5, 2200):
        engine.unsubscribe(id)
    wide, free = random_.uniform(0, 70, (4_000, 12)), random_.random((4_000, 12)) < 0.5
    lows, highs = np.where(free, -np.inf, wide), np.where(free, np.inf, wide + 30)
    engine.subscribe_boxes(many, lows, highs, namespace="wide")
    return engine


def few_engine() -> tamis.Engine:
    """Return an engine of so few subscriptions that their texts are all there is."""
    engine = tamis.Engine()
    engine.subscribe("price < 100 AND symbol = 'IBM'", id="alice", metadata={"team": "red"})
    engine.subscribe("S_WITHIN(area, POLYGON((0 0, 4 0, 0 4, 0 0)))", id="region", namespace="other")
    return engine


ENGINES: list[Callable[[], tamis.Engine]] = [texts_engine, boxes_engine, few_engine]

EVENTS: list[Document] = [
    {"price": 30.5, "symbol": "S3", "area": "POLYGON ((1 1, 30 7, 30 2, 1 1))", "look": [3.0, 1.0, 0.0]},
    {"price": 55, "symbol": "ab1", "area": (41, 1)},
    {"symbol": "IBM", "price": 5},
    {"area": "POLYGON ((45 1, 46 1, 45 2, 45 1))", "price": 2**53 + 1},
    {"x": 40.0, "y": 40.0, "z": 40.0, "v": [0.1, 0.2]},
    {"a0": 40.0, "a1": 41.0, "a2": 3.0, "a3": 80.0, "a4": 10.0, "a5": 50.0},
    {},
]
TABLES: list[Document] = [
    {
        "price": [30.5, 55.0, 1.0] * 20,
        "symbol": ["S3", "ab1", "S1"] * 20,
        "area": ["POLYGON ((1 1, 30 7, 30 2, 1 1))", "POINT (41 1)", "POLYGON ((45 1, 46 1, 45 2, 45 1))"] * 20,
    },
    {"price": [30.5] * 20, "look": np.tile([3.0, 1.0, 0.0], (20, 1))},
    {"x": np.linspace(0, 99, 600), "y": np.linspace(0, 99, 600), "z": np.linspace(0, 99, 600)},
    {f"a{k}": np.linspace(k, 99, 40) for k in range(12)},
    {f"a{k}": np.linspace(20, 70, 200) for k in range(12)},
    {"v": np.random.default_rng(1).normal(size=(40, 2))},
]


# ---- using what was opened


def use(directory: Path) -> int:
    """Open an engine and use everything that reads its arrays; return how many matches single events had."""
    engine = tamis.Engine.load(directory)
    engine.statistics()
    n_matches = 0
    for namespace in [space.name for space in engine.namespaces()]:
        for event in EVENTS:
            with contextlib.suppress(tamis.EventError):
                matches = engine.match(event, namespace=namespace)
                n_matches += len(matches)
                for id in matches[:3]:
                    engine.explain(event, id, namespace=namespace)
        for table in TABLES:
            with contextlib.suppress(tamis.EventError, tamis.TableError):
                engine.match_table(table, namespace=namespace).to_arrow()
        spaces = {space.name: space for space in engine.namespaces()}
        rows = list(spaces[namespace].ids.live_rows())
        for row in rows[:: max(1, len(rows) // 3)]:
            engine.unsubscribe(spaces[namespace].ids[row], namespace=namespace)
        with contextlib.suppress(tamis.SchemaError, tamis.SubscriptionError):
            engine.subscribe("price > 3", namespace=namespace)
        merge = spaces[namespace].roles.mergeable
        if merge is not None:
            merge.compact()
        with contextlib.suppress(tamis.EventError):
            engine.match(EVENTS[0], namespace=namespace)
    engine.wait()
    engine.save(directory / "again")
    return n_matches


# ---- changes


_NUMBERS = [0, 1, -1, 2, 15, 16, 255, 256, 2**15 - 1, -(2**15), 2**31 - 1, -(2**31), 2**32, 2**62, -(2**63), 2**63 - 1]
_FLOATS = [0.0, -0.0, 1.0, -1.0, 1e308, -1e308, np.inf, -np.inf, np.nan, 2.0**53, 5e-324, 1026.0]
_TYPES = [
    "|b1",
    "|i1",
    "|u1",
    "<i2",
    "<u2",
    "<i4",
    "<u4",
    "<i8",
    "<u8",
    "<f4",
    "<f8",
    ">i4",
    "<c16",
    "|O",
    "<U4",
    "junk",
]


class Changer:
    """Changes one thing of a version, chosen by a seed."""

    def __init__(self, version: Path, seed: int) -> None:
        self.version = version
        self.random = random.Random(seed)

    def change(self) -> str:
        """Change something, write the manifest again, and return what was done."""
        files = sorted(path for path in self.version.iterdir() if path.name != MANIFEST)
        arrays = [path for path in files if path.suffix == ".arrays"]
        path = self.random.choice([*files, *arrays * 4, self.version / MANIFEST])
        if path.name == MANIFEST:
            story = self.change_manifest()
        elif self.random.random() < 0.15:
            story = self.change_bytes(path)
        elif path.suffix == ".arrays":
            story = self.change_header(path) if self.random.random() < 0.1 else self.change_arrays(path)
        elif path.suffix == ".arrow":
            story = self.change_table(path)
        else:
            story = self.change_json(path)
        self.seal()
        return f"{path.name}: {story}"

    def seal(self) -> None:
        """Compute all sizes and checksums again, as an attacker would."""
        path = self.version / MANIFEST
        try:
            envelope = json.loads(path.read_bytes())
            contents = envelope["contents"]
            for part in contents["parts"]:
                for name in part["files"]:
                    if (self.version / name).is_file():
                        file = measure(self.version / name)
                        part["files"][name] = {"bytes": file.bytes, "crc32": file.crc32}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return  # the manifest itself was changed beyond recognition
        body = json.dumps(contents).encode()
        envelope["crc32"] = zlib.crc32(body)
        head = json.dumps({key: value for key, value in envelope.items() if key != "contents"}).encode()
        path.write_bytes(head[:-1] + b', "contents": ' + body + b"}")

    def change_bytes(self, path: Path) -> str:
        """Flip, cut, repeat or replace bytes."""
        data = bytearray(path.read_bytes())
        kind = self.random.choice(["flip", "cut", "append", "zero", "fill"])
        at = self.random.randrange(len(data)) if data else 0
        if kind == "cut":
            del data[at:]
        elif kind == "append":
            data += bytes(self.random.randrange(256) for _ in range(64))
        elif kind == "flip" and data:
            for _ in range(self.random.choice([1, 1, 4, 64])):
                data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        elif data:
            length = self.random.choice([1, 4, 8, 64, 1024])
            data[at : at + length] = (b"\0" if kind == "zero" else b"\xff") * len(data[at : at + length])
        path.write_bytes(data)
        return f"{kind} at {at}"

    def change_header(self, path: Path) -> str:
        """Change what the header of a file of arrays says."""
        data = path.read_bytes()
        length = int.from_bytes(data[8:16], "little")
        entries = json.loads(data[16 : 16 + length])
        entry = self.random.choice(entries)
        field = self.random.choice(["dtype", "shape", "offset", "name"])
        if field == "dtype":
            entry[field] = self.random.choice(_TYPES)
        elif field == "shape":
            entry[field] = [self.random.choice([*_NUMBERS, 3, 64]) for _ in range(self.random.randrange(4))]
        elif field == "offset":
            entry[field] = self.random.choice([64, -64, 8, 2**40, -(2**40), entry["offset"] + 64])
        else:
            entry[field] = self.random.choice(entries)["name"]
        header = json.dumps(entries).encode()
        header = header.ljust(-(-(len(header) + 16) // 64) * 64 - 16)
        path.write_bytes(data[:8] + len(header).to_bytes(8, "little") + header + data[16 + length :])
        return f"header: {field} of {entry['name']}"

    def change_arrays(self, path: Path) -> str:
        """Change an array, sometimes two."""
        arrays: Arrays = {name: np.array(array) for name, array in map_arrays(path).items()}
        stories = [self.change_array(arrays) for _ in range(self.random.choice([1, 1, 1, 2]))]
        path.unlink()
        write_arrays(path, arrays)
        return ", ".join(stories)

    def change_array(self, arrays: Arrays) -> str:
        name = self.random.choice(sorted(arrays))
        array = arrays[name]
        changes: list[Callable[[Arrays, str], str]] = [self.number, self.number, self.number, self.number, self.many]
        changes += [self.length, self.kind, self.shape, self.order, self.other]
        story = self.random.choice(changes)(arrays, name)
        return f"{name} {array.dtype.str}{array.shape}: {story}"

    def number(self, arrays: Arrays, name: str) -> str:
        """Put an odd number, or a neighbour of the right one, into one place."""
        flat = arrays[name].reshape(-1)
        if not flat.size:
            return "empty"
        at = self.random.choice([0, flat.size - 1, self.random.randrange(flat.size)])
        old = flat[at]
        flat[at] = self.odd(flat.dtype, old)
        return f"[{at}] {old} -> {flat[at]}"

    def many(self, arrays: Arrays, name: str) -> str:
        """Put odd numbers into many places, or one everywhere."""
        flat = arrays[name].reshape(-1)
        if not flat.size:
            return "empty"
        value = self.odd(flat.dtype, flat[0])
        places = (
            range(flat.size) if self.random.random() < 0.5 else self.random.sample(range(flat.size), flat.size // 3)
        )
        flat[list(places)] = value
        return f"{len(places)} of {value}"

    def odd(self, dtype: np.dtype[Any], old: Any) -> Any:
        """Return a number that is not likely to be right."""
        if dtype.kind == "f":
            return self.random.choice([*_FLOATS, float(old) * 2, float(old) + 1])
        if dtype == np.bool_:
            return np.array([self.random.choice([0, 1, 2, 255])], np.uint8).view(np.bool_)[0]
        near = int(old) + self.random.choice([1, -1, 2, 16, -16, 64])
        bits = 8 * dtype.itemsize
        value = self.random.choice([*_NUMBERS, near, near, near, ~int(old)]) % 2**bits
        return np.array([value], f"u{dtype.itemsize}").view(dtype)[0]

    def length(self, arrays: Arrays, name: str) -> str:
        """Cut an array, or repeat its end."""
        array = arrays[name]
        if not array.ndim:
            return "none"
        n = self.random.choice([0, max(0, len(array) - 1), len(array) // 2, len(array) + 1, 2 * len(array), 100_000])
        arrays[name] = (
            np.resize(array, (n, *array.shape[1:])) if array.size else np.zeros((n, *array.shape[1:]), array.dtype)
        )
        return f"length {n}"

    def kind(self, arrays: Arrays, name: str) -> str:
        """Give the numbers another type."""
        dtype = self.random.choice(
            [code for code in _TYPES if code[1:] not in ("O", "U4", "unk", "c16") and code[0] != ">"]
        )
        with np.errstate(all="ignore"):
            arrays[name] = arrays[name].astype(dtype)
        return f"type {dtype}"

    def shape(self, arrays: Arrays, name: str) -> str:
        """Give the numbers another shape."""
        array = arrays[name]
        arrays[name] = self.random.choice(
            [array.reshape(-1), array.reshape(1, *array.shape), array.reshape(*array.shape, 1)]
        )
        return f"shape {arrays[name].shape}"

    def order(self, arrays: Arrays, name: str) -> str:
        """Turn the numbers around."""
        arrays[name] = np.ascontiguousarray(arrays[name][::-1]) if arrays[name].ndim else arrays[name]
        return "turned around"

    def other(self, arrays: Arrays, name: str) -> str:
        """Leave an array out, or put another one in its place."""
        if self.random.random() < 0.3:
            del arrays[name]
            return "left out"
        source = self.random.choice(sorted(arrays))
        arrays[name] = arrays[source].copy()
        return f"replaced by {source}"

    def change_table(self, path: Path) -> str:
        """Change a column of the subscriptions."""
        table = pa.ipc.open_file(path).read_all()
        name = self.random.choice(table.column_names)
        values = table[name].to_pylist()
        if values:
            at = self.random.randrange(len(values))
            near = [values[at] + 1, values[at] - 1] if isinstance(values[at], int) else []
            values[at] = self.random.choice(
                [*near, None, values[0], self.text() if isinstance(values[at], str) else None]
            )
        field = table.schema.field(name)
        story = f"{name} of one row is {values[at] if values else None!r}"
        try:
            column = pa.array(values, field.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            column, story = table[name], "nothing"
        position = table.schema.get_field_index(name)
        kind = self.random.choice(["values", "values", "values", "fewer", "twice", "without", "chunks"])
        table = table.set_column(position, field.with_nullable(True) if None in values else field, column)
        if kind == "fewer":
            table = table.slice(0, self.random.randrange(len(values) + 1))
        elif kind == "twice":
            table = pa.concat_tables([table, table])
        elif kind == "without":
            table = table.remove_column(position)
        size = 3 if kind == "chunks" else None
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
            out.write_table(table, size)
        return f"{kind}, {story}"

    def text(self) -> str:
        """Return a filter that is not the one that was indexed."""
        return self.random.choice(["price > 1", "nonsense", "", "symbol = 'x' OR area IS NULL", "TRUE", "look = 3"])

    def change_json(self, path: Path) -> str:
        """Change a value anywhere in a JSON document."""
        document = json.loads(path.read_bytes())
        story = self.change_document(document)
        path.write_text(json.dumps(document))
        return story

    def change_manifest(self) -> str:
        """Change a value anywhere in the manifest."""
        path = self.version / MANIFEST
        envelope = json.loads(path.read_bytes())
        target = envelope if self.random.random() < 0.1 else envelope["contents"]
        story = self.change_document(target)
        path.write_text(json.dumps(envelope))
        return story

    def change_document(self, document: Any) -> str:
        """Change, remove or repeat one value, found by a random walk."""
        where: list[Any] = []
        while True:
            keys = list(document) if isinstance(document, dict) else list(range(len(document)))
            if not keys:
                return f"{where} is empty"
            key = self.random.choice(keys)
            where.append(key)
            if isinstance(document[key], dict | list) and document[key] and self.random.random() < 0.9:
                document = document[key]
                continue
            old = document[key]
            kind = self.random.choice(["value", "value", "value", "without"])
            if kind == "without":
                del document[key]
            else:
                near = [old + 1, old - 1] if isinstance(old, int) and not isinstance(old, bool) else []
                odd: list[Any] = [
                    *near,
                    *near,
                    *_NUMBERS,
                    None,
                    "",
                    "x",
                    [],
                    {},
                    True,
                    1.5,
                    [[[]]],
                    "v000001",
                    "number",
                ]
                document[key] = self.random.choice(odd)
            return f"{kind} {where}: {str(old)[:40]} -> {str(document[key])[:40] if kind == 'value' else 'gone'}"


# ---- in other processes


def replay(saved: Path, work: Path, seed: int, number: int) -> str:
    """Make one change in a copy and use it; return what came of it."""
    chosen = random.Random(f"{seed}-{number}")
    source = chosen.choice(sorted(saved.iterdir()))
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source, work)
    story = Changer(work / "v000001", chosen.randrange(2**62)).change()
    return f"{source.name} {story}"


def _serve(saved: Path, work: Path, seed: int, pipe: Connection) -> None:
    """Try the changes whose numbers come through a pipe; answer with (kind, story)."""
    while (number := pipe.recv()) is not None:
        try:
            pipe.send(("made", replay(saved, work, seed, number)))
            use(work)
            pipe.send(("answered", ""))
        except TamisError as error:
            pipe.send((type(error).__name__, str(error)))
        except BaseException:
            pipe.send(("finding", traceback.format_exc(limit=-6)))


class Worker:
    """A process that tries changes; a new one takes its place when it dies."""

    def __init__(self, saved: Path, work: Path, seed: int) -> None:
        self._arguments = saved, work, seed
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(*self._arguments, other), daemon=True)
        self._process.start()
        other.close()

    def attempt(self, number: int) -> tuple[str, str, str]:
        """Try one change; return its story, what came of it ("finding": nothing good) and more about that."""
        story = "before it was made"
        try:
            self._pipe.send(number)
            kind, story = self._receive()
            return (story, *self._receive()) if kind == "made" else ("no change", kind, story)
        except (EOFError, TimeoutError, BrokenPipeError, ConnectionResetError) as error:
            hung = isinstance(error, TimeoutError)
            self._process.join(0 if hung else 10)
            self._process.kill()
            self._process.join()
            code = self._process.exitcode
            self._start()
            return story, "finding", "it hangs" if hung else f"the process died, exit code {code}"

    def _receive(self) -> tuple[str, str]:
        if not self._pipe.poll(PATIENCE):
            raise TimeoutError
        answer: tuple[str, str] = self._pipe.recv()
        return answer

    def stop(self) -> None:
        """End the process."""
        with contextlib.suppress(BrokenPipeError):
            self._pipe.send(None)
        self._process.join(10)
        self._process.kill()


def fuzz(seconds: float, seed: int, changes: float, first: int = 0) -> tuple[Counter[str], list[str]]:
    """Try changes until the time or their number is over; return what came of them, and the findings."""
    outcomes: Counter[str] = Counter()
    findings: list[str] = []
    with tempfile.TemporaryDirectory(prefix="tamis-fuzz-", ignore_cleanup_errors=True) as folder:
        saved = Path(folder) / "saved"
        for make in ENGINES:
            make().save(saved / make.__name__)
            shutil.copytree(saved / make.__name__, Path(folder) / make.__name__)
            assert use(Path(folder) / make.__name__) >= 1, f"the unchanged {make.__name__} matches nothing"
        worker = Worker(saved, Path(folder) / "work", seed)
        end, number = time.monotonic() + seconds, first
        while time.monotonic() < end and number - first < changes:
            story, outcome, more = worker.attempt(number)
            outcomes[outcome] += 1
            if outcome == "finding":
                findings.append(f"--seed {seed} --first {number} --changes 1  # {story}\n{more}")
            number += 1
        worker.stop()
    return outcomes, findings


def main(arguments: list[str]) -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description="Damage saved engines and open them.")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--changes", type=float, default=float("inf"))
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    outcomes, findings = fuzz(options.seconds, seed, options.changes, options.first)
    print(f"seed {seed}: {sum(outcomes.values()):,} changes")
    for outcome, count in outcomes.most_common():
        print(f"  {count:7,}  {outcome}")
    for finding in findings:
        print(f"python -m tests.fuzz.snapshots 60 {finding}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
