"""Importing the kernels compiles nothing and survives directories that cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys

import tamis.kernels

PATHS = os.pathsep.join(p for p in sys.path if p)


def run(script, **environment):
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": PATHS, **environment},
        check=True,
        timeout=120,
        capture_output=True,
        text=True,
    ).stdout.strip()


def test_importing_compiles_nothing_and_needs_no_numba():
    script = "import sys, tamis.kernels; print('numba' in sys.modules)"
    assert run(script) == "False"


def test_a_given_directory_is_used(tmp_path):
    script = "import os, tamis.kernels; print(os.environ['NUMBA_CACHE_DIR'])"
    assert run(script, NUMBA_CACHE_DIR=str(tmp_path)) == str(tmp_path)


def test_an_unusable_directory_is_passed_over(tmp_path):
    occupied = tmp_path / "file"
    occupied.write_text("not a directory")
    script = "import os, tamis.kernels; print(os.environ['NUMBA_CACHE_DIR'])"
    assert run(script, NUMBA_CACHE_DIR=str(occupied)) != str(occupied)


def test_without_any_directory_kernels_are_not_cached(monkeypatch):
    monkeypatch.setattr(tamis.kernels, "_is_writable", lambda directory: False)
    assert tamis.kernels._choose_cache() is False


ONLY_READ = """
import os, pathlib, sys, tempfile
from tamis.kernels import _is_writable
shared = "/tmp" if os.getuid() == 0 else None  # the parents of a temporary directory may be closed to other users
with tempfile.TemporaryDirectory(dir=shared) as directory:
    os.chdir(directory)
    closed = pathlib.Path("closed")
    closed.mkdir()
    if os.getuid() == 0:  # root may write everywhere: look as a user who may not
        for path in (directory, closed):
            os.chown(path, 65534, 65534)
        os.setresuid(65534, 65534, 0)
    before = _is_writable(closed)
    closed.chmod(0o500)
    after = _is_writable(closed)
    if os.getresuid()[2] == 0:
        os.setresuid(0, 0, 0)
print(before, after)
"""


def test_a_read_only_directory_is_not_writable():
    assert run(ONLY_READ) == "True False"


def test_a_directory_of_another_user_is_not_writable(tmp_path, monkeypatch):
    assert tamis.kernels._is_writable(tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    assert not tamis.kernels._is_writable(tmp_path)
