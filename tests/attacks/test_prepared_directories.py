"""Another local user creates tamis' directory in the shared temporary one, so that his files are executed or mapped.

What must happen: a directory that others own, can enter, or that is a link is not used.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tamis import kernels, private_directory
from tamis.engine.snapshot import local_copy
from tamis.errors import SnapshotError


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a temporary directory that all users share, as /tmp is."""
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("TAMIS_SNAPSHOT_CACHE", raising=False)
    private_directory._own_directory.cache_clear()
    yield tmp_path
    private_directory._own_directory.cache_clear()


def open_to_all(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def a_link(path: Path) -> None:
    target = path.with_name("of-mallory")
    target.mkdir(mode=0o700)
    path.symlink_to(target)


def of_another_user(path: Path) -> None:
    path.mkdir(mode=0o700)
    if os.getuid() == 0:
        os.chown(path, 12345, 12345)
    else:  # only root can give a directory away: look at it as another user would
        path.chmod(0o770)


PREPARATIONS = [open_to_all, a_link, of_another_user]


@pytest.mark.parametrize("prepare", PREPARATIONS)
@pytest.mark.parametrize("level", ["outer", "inner"])
def test_a_prepared_directory_is_not_used(temporary: Path, prepare: Callable[[Path], None], level: str) -> None:
    outer = temporary / f"tamis-{os.getuid()}"
    if level == "inner":
        outer.mkdir(mode=0o700)
    prepared = outer / "snapshots" if level == "inner" else outer
    prepare(prepared)
    for chosen in (private_directory.private_directory("snapshots"), local_copy.cache_directory()):
        assert not chosen.is_relative_to(prepared)
        assert private_directory.is_private(chosen)
        assert private_directory.is_private(chosen.parent)


def test_a_directory_of_ones_own_is_kept_and_closed(temporary: Path) -> None:
    chosen = private_directory.private_directory("kernels")
    assert chosen == temporary / f"tamis-{os.getuid()}" / "kernels" == private_directory.private_directory("kernels")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (chosen, chosen.parent)] == [0o700, 0o700]


@pytest.mark.parametrize("prepare", PREPARATIONS)
def test_compiled_kernels_are_not_read_from_a_prepared_directory(
    temporary: Path, prepare: Callable[[Path], None]
) -> None:
    prepare(temporary / f"tamis-{os.getuid()}")
    *_, last = kernels._candidates()
    assert not last.is_relative_to(temporary / f"tamis-{os.getuid()}")
    assert private_directory.is_private(last)


@pytest.mark.parametrize("prepare", PREPARATIONS)
def test_a_configured_directory_for_copies_must_be_private(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[Path], None]
) -> None:
    prepare(temporary / "copies")
    monkeypatch.setenv("TAMIS_SNAPSHOT_CACHE", str(temporary / "copies"))
    with pytest.raises(SnapshotError, match="must be a directory of this user, closed to all others"):
        local_copy.cache_directory()


def replaceable(path: Path) -> None:
    """Make a directory whose parent another user can write to: the directory can be renamed and another put there."""
    path.parent.chmod(0o777)
    path.mkdir(mode=0o700)


@pytest.mark.parametrize("prepare", [open_to_all, of_another_user, replaceable])
@pytest.mark.parametrize("levels", [(), ("inner",), ("inner", "inmost")])
def test_a_cache_of_kernels_is_checked_at_every_level(
    tmp_path: Path, prepare: Callable[[Path], None], levels: tuple[str, ...]
) -> None:
    prepared = tmp_path / "outer" / "cache"
    prepared.parent.mkdir(mode=0o700)
    assert kernels._is_writable(prepared.parent / "sound")
    prepare(prepared)
    assert not kernels._is_writable(prepared.joinpath(*levels))


def test_a_cache_may_be_a_link_and_lie_below_a_sticky_directory(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    assert kernels._is_writable(tmp_path / "link" / "cache")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "other").symlink_to(tmp_path / "open")
    assert not kernels._is_writable(tmp_path / "other" / "cache")
