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

    def wait(self) -> bool:
        self.story.append("kernels are compiled")
        self.is_running = False
        return True


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
    with kernels.compiling("local[2]") as compiling:
        assert compiling.is_running
    assert not compiling.is_running
    with kernels.compiling("spark://host:7077") as compiling:
        assert not compiling.is_running


def _stand_in(path: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run ``body`` instead of each process that compiles; its arguments are the use and the part."""
    path.write_text(f"#!{sys.executable}\nimport sys\n{body}\n")
    path.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(path))


def test_the_mark_is_left_when_every_part_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marks: list[str] = []
    monkeypatch.setattr(warm_up, "leave_mark", lambda: marks.append("job"))
    record = f"open({str(tmp_path)!r} + '/' + sys.argv[-1], 'w').close()"
    _stand_in(tmp_path / "python", record, monkeypatch)
    kernels.compile_kernels(kernels.Use.JOB)
    assert marks == ["job"]
    assert {path.name for path in tmp_path.iterdir()} == {"python", *warm_up.PARTS}


def test_a_part_that_fails_leaves_no_mark_and_shows_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("disk full")

    monkeypatch.setattr(warm_up, "leave_mark", lambda: pytest.fail("a mark of what is not compiled"))
    monkeypatch.setitem(warm_up.PARTS, "values", fail)
    monkeypatch.setitem(warm_up.PARTS, "regions", lambda: None)
    _stand_in(tmp_path / "python", "sys.exit(sys.argv[-1] == 'values')", monkeypatch)
    with pytest.raises(OSError, match="disk full"):
        kernels.compile_kernels(kernels.Use.JOB)


def test_compiled_kernels_need_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "are_kernels_compiled", lambda: True)
    with kernels.compiling() as compiling:
        assert not compiling.is_running
        compiling.wait()


def test_elsewhere_than_on_a_terminal_a_line_says_what_takes_long(capsys: pytest.CaptureFixture[str]) -> None:
    StageProgress(quiet=False).announce("compiling kernels ...")
    StageProgress(quiet=True).announce("not shown")
    assert capsys.readouterr().err == "compiling kernels ...\n"
