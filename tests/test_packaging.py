"""What a user gets: the wheel, installed into an empty environment, works from anywhere.

No network: the wheel is built with the hatchling of the running environment, and the new environment borrows
the dependencies (not tamis itself) from the running one through a .pth file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import tamis

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel in it, and an empty directory to run from."""

    wheel: Path
    scripts: Path
    elsewhere: Path

    def run(self, program: str, *arguments: str, compiled: bool = True) -> str:
        """Run a program of that environment far from the checkout; give what it prints."""
        inherited = {
            key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COVERAGE", "NUMBA"))
        }
        environment = inherited | {"HOME": str(self.elsewhere), "NO_COLOR": "1"}
        environment |= {} if compiled else {"NUMBA_DISABLE_JIT": "1"}
        command = [self.scripts / program, *arguments]
        done = subprocess.run(
            command, cwd=self.elsewhere, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{program} {arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    here = tmp_path_factory.mktemp("packaging")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(here), str(ROOT)]
    subprocess.run(build, check=True)
    [wheel] = here.glob("tamis-*.whl")

    environment = here / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    install = [*pip, "--python", str(python), "install", "--no-deps", "--no-index", "--no-compile", str(wheel)]
    subprocess.run(install, check=True)
    question = "import sysconfig; print(sysconfig.get_path('purelib'))"
    stdout = subprocess.run([python, "-c", question], check=True, capture_output=True, text=True).stdout
    # A path named in a .pth file is searched, but its own .pth files (the editable tamis) are not obeyed.
    borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (Path(stdout.strip()) / "borrowed.pth").write_text("\n".join(sorted(borrowed)), encoding="utf-8")

    elsewhere = here / "elsewhere"
    elsewhere.mkdir()
    return Installed(wheel, environment / "bin", elsewhere)


def test_the_wheel_holds_all_that_is_read_at_run_time(installed: Installed) -> None:
    names = set(zipfile.ZipFile(installed.wheel).namelist())
    wanted = {
        path for path in (ROOT / "src" / "tamis").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }
    missing = {path.relative_to(ROOT / "src").as_posix() for path in wanted} - names
    assert not missing
    assert {"tamis/py.typed", "tamis/data/LICENSES.md"} <= names
    assert any(name.startswith("tamis/model/language/") and name.endswith(".lark") for name in names)
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_the_wheel_holds_nothing_else(installed: Installed) -> None:
    names = zipfile.ZipFile(installed.wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"tamis", f"tamis-{tamis.__version__}.dist-info"}
    assert not [name for name in names if name.endswith((".pyc", ".nbi", ".nbc"))]


def test_the_source_distribution_is_the_checkout_and_builds_the_same_wheel(
    installed: Installed, tmp_path: Path
) -> None:
    def build(target: str, source: Path) -> None:
        command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(tmp_path)]
        subprocess.run(command, cwd=source, check=True, capture_output=True)

    build("sdist", ROOT)
    [archive] = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        sources.extractall(tmp_path, filter="data")
    source = tmp_path / f"tamis-{tamis.__version__}"
    for name in ("Makefile", "conftest.py", "requirements/lock.txt", "examples/notebooks", "deploy", "CHANGELOG.md"):
        assert (source / name).exists(), f"{name} is missing: `make setup` and the tests need it"
    information = (source / "PKG-INFO").read_text(encoding="utf-8")
    assert "Description-Content-Type: text/markdown" in information
    build("wheel", source)
    [wheel] = tmp_path.glob("*.whl")
    assert sorted(zipfile.ZipFile(wheel).namelist()) == sorted(zipfile.ZipFile(installed.wheel).namelist())


def test_every_extra_that_a_text_names_exists_and_the_readme_lists_all_for_users() -> None:
    """`pip install` only warns about an extra that does not exist."""
    projects = [
        PROJECT,
        *(tomllib.loads(path.read_text(encoding="utf-8"))["project"] for path in ROOT.glob("src/*/pyproject.toml")),
    ]
    extras = {project["name"]: set(project.get("optional-dependencies", ())) for project in projects}
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"), *ROOT.glob("src/**/*.py")]
    named = {
        (package, extra, path.relative_to(ROOT))
        for path in texts
        for package, names in re.findall(r"\b(tamis(?:-bench|-lab)?)\[([a-z,]+)\]", path.read_text(encoding="utf-8"))
        for extra in names.split(",")
    }
    assert len(named) > 10
    assert [name for name in named if name[1] not in extras[name[0]]] == []
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`([a-z]+)`\s\(", readme.partition("extras:")[2].partition("\n\n")[0]))
    assert listed | {"dev", "docs"} == extras["tamis"]


@pytest.mark.parametrize(("package", "command"), [("tamis_bench", "bench"), ("tamis_lab", "lab")])
def test_laboratory_and_benchmarks_are_wheels_of_their_own(package: str, command: str, tmp_path: Path) -> None:
    folder = ROOT / "src" / package
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    modules = {f"{package}/{path.relative_to(folder).as_posix()}" for path in folder.rglob("*.py")}
    modules |= {f"{package}/{path.name}" for path in folder.glob("errata.toml")}
    information = f"{package}-{tamis.__version__}.dist-info"
    assert {name for name in archive.namelist() if not name.startswith(information)} == modules
    metadata = archive.read(f"{information}/METADATA").decode()
    assert re.search(rf"^Requires-Dist: tamis\[.*\]=={re.escape(tamis.__version__)}$", metadata, re.MULTILINE)
    points = archive.read(f"{information}/entry_points.txt").decode()
    assert f"{command} = {package}.commands.app:app" in points


def test_the_wheel_is_light(installed: Installed) -> None:
    """The sources take 1.4 MB and the data sets 1.1 MB; a file that does not belong there would show."""
    assert installed.wheel.stat().st_size < 3_000_000


def test_the_installed_package_is_the_one_that_runs(installed: Installed) -> None:
    path = installed.run("python", "-c", "import tamis; print(tamis.__file__)").strip()
    assert Path(path).is_relative_to(installed.scripts.parent)


def test_one_version_everywhere(installed: Installed) -> None:
    assert tamis.__version__ in installed.run("tamis", "--version")
    program = "import importlib.metadata; print(importlib.metadata.version('tamis'))"
    assert installed.run("python", "-c", program).strip() == tamis.__version__
    assert f"version: {tamis.__version__}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_demonstration_runs_from_anywhere(installed: Installed) -> None:
    # As Python, for compiling every kernel again would take a minute; the next test compiles one.
    assert json.loads(installed.run("tamis", "demo", "--json", compiled=False))
    assert not [path for path in installed.elsewhere.iterdir() if not path.name.startswith(".")], "it left files behind"


def test_kernels_compile_where_they_are_installed(installed: Installed) -> None:
    program = (
        "import numpy as np; from tamis.kernels.boxes.bits import live_slots\n"
        "print(live_slots(np.array([5], np.uint8), 8, np.empty(9, np.int64)), len(live_slots.signatures))"
    )
    assert installed.run("python", "-c", program).split() == ["2", "1"]


def test_data_and_grammar_are_found(installed: Installed) -> None:
    program = (
        "from tamis.demo import datasets as d; import tamis\n"
        "table = d.earthquakes()\n"
        "engine = tamis.Engine(tamis.Schema.from_arrow(table))\n"
        "[engine.subscribe(text, id=name) for name, text in d.quake_subscriptions()]\n"
        "print(table.num_rows, d.quake_regions().num_rows, len(engine))\n"
        "print(d.counties().num_rows, d.storms().num_rows, d.broken_subscriptions().num_rows)"
    )
    result = installed.run("python", "-c", program, compiled=False)
    assert result.split() == ["1707", "217", "67", "3398", "19537", "3"]


def test_every_module_can_be_imported() -> None:
    """Also those that no test imports and that have no doctest."""
    files = [path.relative_to(ROOT / "src").with_suffix("") for path in (ROOT / "src").rglob("*.py")]
    names = [".".join(file.parts).removesuffix(".__init__") for file in files if file.name != "__main__"]
    assert len(names) > 700
    program = "import importlib, sys; [importlib.import_module(name) for name in sys.stdin.read().split()]"
    command = [sys.executable, "-W", "error::ImportWarning", "-c", program]
    done = subprocess.run(command, input=" ".join(sorted(names)), text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_spark_extra_and_the_tests_agree_on_pandas() -> None:
    extras = PROJECT["optional-dependencies"]
    bounds = {name: [need for need in extras[name] if need.startswith("pandas")] for name in ("spark", "dev")}
    assert bounds["spark"] == bounds["dev"] != []


def test_the_lock_file_pins_every_dependency_with_hashes() -> None:
    """`make setup` takes versions from it; what it does not name would be installed in whatever version is newest."""
    entries = re.split(r"\n(?=[a-z])", (ROOT / "requirements" / "lock.txt").read_text(encoding="utf-8"))[1:]
    pinned = {
        re.split(r"==", entry)[0] for entry in entries if re.search(r"^[a-z0-9-]+==\S+.*\\\n +--hash=sha256:", entry)
    }
    assert len(pinned) == len({re.split(r"==", entry)[0] for entry in entries})
    needs = [*PROJECT["dependencies"], *(need for extra in PROJECT["optional-dependencies"].values() for need in extra)]
    names = {re.split(r"[^A-Za-z0-9_-]", need)[0].lower().replace("_", "-") for need in needs} - {"tamis"}
    assert names | {"uv", "setuptools", "hatchling"} <= pinned
