"""`tamis kernels`, and the pipeline that waits for kernels being compiled in another process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import tamis.spark
from tamis.cli import kernels
from tamis.cli.pipeline import app as pipeline
from tamis.cli.pipeline.progress import StageProgress
from tamis.demo import warm_up


class Slow:
    """Kernels that are compiled when the pipeline waits for them."""

    def __init__(self, story: list[str]) -> None:
        self.story = story
        self.is_running = True

    def wait(self) -> None:
        self.story.append("kernels are compiled")
        self.is_running = False


def test_the_first_stage_with_kernels_waits_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    story: list[str] = []

    def run(_: object, *, spark: object, watch: object) -> None:
        for stage in ("read events", "compile", "compile"):
            with watch(stage):  # type: ignore[operator]
                story.append(stage)

    monkeypatch.setattr(tamis.spark, "run_pipeline", run)
    pipeline._watched(None, True, Slow(story))  # type: ignore[arg-type]
    assert story == ["read events", "kernels are compiled", "compile", "compile"]


def test_a_process_compiles_and_is_gone_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    program.chmod(0o755)
    monkeypatch.setattr(warm_up, "are_kernels_compiled", lambda: False)
    monkeypatch.setattr("sys.executable", str(program))
    with kernels.compiling("local[2]") as found:
        assert found.is_running
    assert not found.is_running
    with kernels.compiling("spark://host:7077") as found:
        assert not found.is_running


def test_compiled_kernels_need_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "are_kernels_compiled", lambda: True)
    with kernels.compiling() as found:
        assert not found.is_running
        found.wait()


def test_elsewhere_than_on_a_terminal_a_line_says_what_takes_long(capsys: pytest.CaptureFixture[str]) -> None:
    StageProgress(quiet=False).announce("compiling kernels ...")
    StageProgress(quiet=True).announce("not shown")
    assert capsys.readouterr().err == "compiling kernels ...\n"
