"""What a killed builder leaves is removed by the next one to build; one that is at work never is."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

from tamis.engine import snapshot

#: Builds until it is killed; says where.
_BUILDER = """
import sys
from pathlib import Path
from tamis.engine import snapshot
with snapshot.building(Path(sys.argv[1])) as place:
    (place.staging / "half.arrays").write_bytes(b"half a part")
    print(place.staging, flush=True)
    sys.stdin.read()
"""


def places(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_builder_killed_with_9_leaves_nothing_for_long(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _BUILDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as builder:
        assert builder.stdout is not None
        left = Path(builder.stdout.readline().strip())
        with snapshot.building(tmp_path) as place:  # beside one that is at work
            assert places(tmp_path) == sorted([left.name, place.staging.name])
        assert places(tmp_path) == [left.name]
        builder.kill()
        builder.wait()
        assert (left / "half.arrays").exists()
        with snapshot.building(tmp_path) as place:
            assert places(tmp_path) == [place.staging.name]
    assert places(tmp_path) == []


def test_what_another_machine_builds_stays_for_a_day(tmp_path: Path) -> None:
    """Its locks may not be seen here."""
    far, old = (tmp_path / f".building-{host}-x" for host in ("far", f"not-{platform.node()}"))
    for place in (far, old):
        place.mkdir()
        (place / "part").touch()
        os.utime(place, (0, 0))
    os.utime(old / "part", (0, 0))
    with snapshot.building(tmp_path):
        assert far.exists()
        assert not old.exists()
