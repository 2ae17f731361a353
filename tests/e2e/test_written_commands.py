"""Every command that README and tutorial show is run, in one folder, as a newcomer would; what is not, is named."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tamis
from tests.e2e.test_cli_docs import ROOT, Shell

PAGES = ("README.md", "docs/tutorial.md")
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(?:\.venv/bin/)?((?:tamis|make) [a-z][^`]*)`")

#: Commands that need Spark, and the test that runs each.
BY_OTHERS = {
    "tamis pipeline demo": ("tests/spark/test_pipeline.py", "test_the_demonstration", 'run("demo", '),
    "tamis pipeline run alerts.toml": (
        "tests/spark/test_pipeline.py",
        "test_from_files_to_files_and_again",
        'run("run", folder / "alerts.toml"',
    ),
}
#: Commands that run until they are stopped; each is started at a free port and gets a request.
SERVERS = ("tamis serve", "tamis demo console")
#: "No" is an answer: the event does not match.
MAY_SAY_NO = ("tamis explain",)


def commands(page: str) -> list[str]:
    """Return the lines of the shell blocks of a page, without their comments."""
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    lines = [line for block in blocks for line in block.splitlines() if line.strip()]
    return [re.sub(r"\s+# .*$", "", line).strip() for line in lines]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A folder with the files of their own that README speaks of."""
    if shutil.which("bash") is None:
        pytest.skip("not run: there is no bash on this machine")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "selectors.txt").write_text("JMSType = 'car' AND weight > 2500\n")
    engine = tamis.Engine()
    engine.subscribe("mag >= 5", id="strong")
    engine.save("saved")
    return Shell(tmp_path)


def _obey_interrupts() -> None:
    """Undo what a shell does to commands that it runs in the background: they and their children ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def started(command: str, shell: Shell) -> Iterator[str]:
    """Start a command that goes on, at a free port; yield its address."""
    process = subprocess.Popen(
        [*shlex.split(command), "--port", "0"],
        cwd=shell.folder,
        env=shell.environment | {"PYTHONUNBUFFERED": "1"},
        executable=str(shell.folder / "bin" / "tamis"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=_obey_interrupts,
    )
    try:
        assert process.stdout is not None
        yield next(address[0] for line in process.stdout if (address := re.search(r"http://[\d.]+:\d+", line)))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_runs(page: str, shell: Shell) -> None:
    written = commands(page)
    assert len(written) > 5
    alone = [line for line in written if not line.startswith(("make ", *SERVERS, "curl ")) and line not in BY_OTHERS]
    for line in alone:
        shown = shell.run(line)
        assert shell.code == 0 or (shell.code == 1 and line.startswith(MAY_SAY_NO)), f"{line}\n{shown}"
        assert shown.strip(), line


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="not run: there is no curl on this machine")
def test_what_serves_is_started_and_curl_is_answered(shell: Shell) -> None:
    written = [line for page in PAGES for line in commands(page)]
    assert set(SERVERS) <= set(written)
    with started("tamis demo console", shell) as url:
        assert "tamis" in shell.run(f"curl -s {url}/")
    requests = list(dict.fromkeys(line for line in written if line.startswith("curl ")))
    assert len(requests) == 3, "both pages show the same three"
    with started("tamis serve", shell) as url:
        answers = [
            shell.run(line.replace("http://127.0.0.1:8080", url).replace("curl ", "curl -s ", 1)) for line in requests
        ]
    assert '"id":"strong"' in answers[0]
    assert '"error"' not in answers[1]
    assert '"mag":6.1' in answers[2], "the event that was published comes over the stream"


@pytest.mark.parametrize("page", PAGES)
def test_what_is_not_run_here_is_run_elsewhere(page: str) -> None:
    for line in commands(page):
        if line in BY_OTHERS:
            file, test, call = BY_OTHERS[line]
            body = (ROOT / file).read_text(encoding="utf-8").split(f"def {test}(")[1].split("\ndef ")[0]
            assert call in body, f"{line} is no longer run by {test}"


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_that_are_named_exist(page: str) -> None:
    """`make run` and `make test` take minutes and install things: they are what CI runs, so here they only exist."""
    text = (ROOT / page).read_text(encoding="utf-8")
    named = {line for line in (*commands(page), *INLINE.findall(text)) if line.startswith("make ")}
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {line.split()[1] for line in named} <= targets
    assert page != "README.md" or {"make run", "make test", "make setup"} <= named


@pytest.mark.parametrize("page", PAGES)
def test_commands_within_a_sentence_are_known(page: str, shell: Shell) -> None:
    for line in INLINE.findall((ROOT / page).read_text(encoding="utf-8")):
        if line.startswith("tamis "):
            words = [word for word in shlex.split(line)[1:] if re.fullmatch(r"[a-z][\w-]*", word)]
            shell.run(f"tamis {' '.join(words)} --help")
            assert shell.code == 0, line
