"""The tree itself: nothing that works on one machine only, nothing heavy, and documents that tell the truth."""

from __future__ import annotations

import doctest
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAXIMUM_BYTES = 1_000_000
#: All bundled data together: what every installation of tamis downloads.
MAXIMUM_DATA_BYTES = 1_500_000

#: Paths and hosts that mean something on one machine only. Written so that this file does not match itself.
PRIVATE = {
    "a path of one machine": re.compile(r"(?<![\w.-])/(?:work|root|farm)/"),
    "a home directory": re.compile(r"(?<![\w.-])/(?:home|Users)/[a-z]"),
    "a registry host": re.compile(
        r"registry\.(?:npmjs|yarnpkg)|pypi\.org/simple|files\.pythonhosted|repo1?\.maven|test\.pypi", re.IGNORECASE
    ),
    "a package index of one's own": re.compile(r"(?:extra-|_|-)index[-_]url\b|find[-]links\b", re.IGNORECASE),
}

#: ``make x`` in backquotes, or alone on a line (of a shell block) but for variables and a comment.
COMMAND = re.compile(r"`make ([a-z][a-z-]*)|^(?:\$ )?make ([a-z][a-z-]*)(?: +[A-Z_]+=\S+)*(?: +#.*)?$", re.MULTILINE)


def tracked() -> list[Path]:
    """Give the files that git has, or would take: what a clone holds after the next commit."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def documents() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".md"]


def makefile_targets() -> set[str]:
    [phony] = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    return set(phony.split())


def private_places(text: str) -> list[str]:
    return [
        f"{number}: {what}: {line.strip()[:100]}"
        for number, line in enumerate(text.splitlines(), start=1)
        for what, pattern in PRIVATE.items()
        if pattern.search(line)
    ]


def text_of(path: Path) -> str:
    """Give a file's text, or nothing when it is not text (Parquet, pictures)."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_no_machine_paths_and_no_registry_hosts() -> None:
    faults = [f"{path.relative_to(ROOT)}:{place}" for path in tracked() for place in private_places(text_of(path))]
    assert not faults, "\n" + "\n".join(faults)


@pytest.mark.parametrize(
    "bad",
    ["cd /{}/main", "see '/{}/x'", "https://registry.{}.org/left-pad", "pip install --{}-url x"],
    ids=["path", "quoted path", "registry", "index"],
)
def test_the_search_for_private_places_can_fail(bad: str) -> None:
    filler = {"cd": "work", "se": "root", "ht": "npmjs", "pi": "index"}[bad[:2]]
    assert private_places(bad.format(filler))


def test_no_heavy_file() -> None:
    heavy = {str(path.relative_to(ROOT)): path.stat().st_size for path in tracked()}
    assert not {name: size for name, size in heavy.items() if size > MAXIMUM_BYTES}
    assert sum(size for name, size in heavy.items() if name.startswith("src/tamis/data/")) < MAXIMUM_DATA_BYTES


def test_ci_calls_only_what_the_readme_names() -> None:
    called = set(re.findall(r"\bmake +([a-z-]+)", (ROOT / ".ci" / "run").read_text(encoding="utf-8")))
    assert "test" in called
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not {target for target in called | {"run"} if f"make {target}" not in readme}


def loose_actions(text: str) -> list[str]:
    """Return the actions of a workflow that are not pinned to a commit: a tag can be moved to other code."""
    return [name for name in re.findall(r"\buses: *(\S+)", text) if not re.search(r"@[0-9a-f]{40}$", name)]


def test_the_workflow_runs_what_a_developer_runs_with_pinned_actions() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert loose_actions(text) == []
    assert {".ci/run", "make check", "make setup-newest", "make test SAMPLE=no"} <= set(
        re.findall(r"- run: (.*)$", text, re.MULTILINE)
    )
    pythons = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert re.findall(r'python: \["(.*)", "(.*)"\]', text) == [(pythons[0], pythons[-1])]


def test_the_search_for_loose_actions_can_fail() -> None:
    assert loose_actions("- uses: actions/checkout@v4") == ["actions/checkout@v4"]


@pytest.mark.skipif(shutil.which("make") is None, reason="not run: there is no make on this machine")
def test_make_help_lists_every_target() -> None:
    shown = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert set(re.findall(r"^ *make ([a-z-]+) +\S", shown, re.MULTILINE)) == makefile_targets()


def test_documents_name_only_targets_that_exist() -> None:
    named = {
        (str(path.relative_to(ROOT)), target)
        for path in documents()
        for pair in COMMAND.findall(path.read_text(encoding="utf-8"))
        for target in pair
        if target
    }
    assert not {(path, target) for path, target in named if target not in makefile_targets()}


def test_documents_link_to_files_that_exist() -> None:
    dead = [
        f"{path.relative_to(ROOT)}: {link}"
        for path in documents()
        for link in re.findall(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)", path.read_text(encoding="utf-8"))
        if not (path.parent / link).exists()
    ]
    assert not dead


def test_documents_have_examples_that_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run the fenced ``>>>`` examples of each document, top to bottom, in one namespace per document."""
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    report: list[str] = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        code = "\n".join(re.findall(r"^```(?:python|pycon)\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        name = str(path.relative_to(ROOT))
        runner.run(doctest.DocTestParser().get_doctest(code, {}, name, name, 0), out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)
