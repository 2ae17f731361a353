"""The bill of materials has every package of the lock file, and each of them has hashes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.sbom import LOCK, read_lock

ROOT = Path(__file__).parents[1]
HASH = "sha256:" + "0" * 64


def test_the_bill_has_every_package_of_the_lock_with_its_hashes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "scripts/sbom.py", str(tmp_path / "bom.json")], cwd=ROOT, check=True)
    bom = json.loads((tmp_path / "bom.json").read_text())
    text = LOCK.read_text(encoding="utf-8")
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.5")
    assert len(bom["components"]) == text.count("==") - text.count(" == ") > 50
    assert sum(len(component["hashes"]) for component in bom["components"]) == text.count("--hash=sha256:")
    assert len({component["bom-ref"] for component in bom["components"]}) == len(bom["components"])
    assert {"numpy", "uvicorn", "websockets"} <= {component["name"] for component in bom["components"]}


def test_the_same_lock_gives_the_same_bill() -> None:
    bills = [subprocess.check_output([sys.executable, "scripts/sbom.py"], cwd=ROOT) for _ in range(2)]
    assert bills[0] == bills[1]


@pytest.mark.parametrize(
    "line",
    [
        "evil==1",
        f"evil>=1 \\\n    --hash={HASH}",
        "evil==1 \\\n    --hash=md5:0",
        f"https://x/evil.whl \\\n    --hash={HASH}",
        "-e .",
    ],
)
def test_a_package_without_a_version_or_a_hash_is_refused(line: str) -> None:
    good = f"a==1 \\\n    --hash={HASH}\n"
    assert [package.name for package in read_lock(good + good)] == ["a", "a"]
    with pytest.raises(ValueError, match="make lock"):
        read_lock(good + line)
