"""``tamis lab``: every table and figure of the five papers, run again; which of their claims hold."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.options import Json, examples
from tamis_lab.scale import Scale

if TYPE_CHECKING:
    from tamis_lab.experiment import Experiment, Finding
    from tamis_lab.results import Results, Setting

__all__ = ["EPILOG", "app", "compare", "cost", "list_experiments", "report", "rules", "run"]

EPILOG = examples(
    "tamis lab list",
    "tamis lab run z-plateau rp-cubes",
    "tamis lab rules Z7 M9",
    "tamis lab run mics --scale paper --out build/lab/paper",
    "tamis lab run all --scale paper --first && tamis lab cost --scale paper",
    "tamis lab run Z7 --no-spark --json",
    "tamis lab run all && tamis lab report",
    "tamis lab run all --seed 1 --out build/lab/again && tamis lab compare build/lab/small build/lab/again",
)

app = typer.Typer(
    help="Run the experiments of the five papers again, and see which claims hold.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
)

Out = Annotated[
    Path | None, typer.Option(metavar="DIRECTORY", help="Where rows and pictures are; build/lab/SCALE otherwise.")
]
ScaleOption = Annotated[
    Scale, typer.Option("--scale", help="Sizes: minutes, as in the papers (hours), or beyond them.")
]


@app.command("list", epilog=EPILOG)
def list_experiments(json: Json = False) -> None:
    """List the experiments: what they repeat, which claims they decide, what is done."""
    from tamis.cli.screen import make_table, output, write_json_lines
    from tamis_lab.registry import EXPERIMENTS

    if json:
        write_json_lines([_as_row(experiment) for experiment in EXPERIMENTS.values()])
        return
    table = make_table("experiment", "paper", "repeats", "claims")
    for experiment in EXPERIMENTS.values():
        table.add_row(experiment.name, experiment.paper, experiment.figure, " ".join(experiment.claims))
    output().print(table)


def _as_row(experiment: Experiment) -> dict[str, object]:
    return {
        "experiment": experiment.name,
        "paper": experiment.paper,
        "figure": experiment.figure,
        "claims": list(experiment.claims),
        "set_up": experiment.set_up,
        "readings": list(experiment.readings),
    }


@app.command("rules", epilog=EPILOG)
def rules(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Experiments, papers or claims, or all.")],
    json: Json = False,
) -> None:
    """Print how claims are judged, before anything is run: the rule, why it is that rule, and what it says no to.

    Rules that were changed stand there with the date, the earlier verdict and the reason.
    """
    from tamis.cli.screen import output, write_json_lines
    from tamis_lab.registry import find_experiments
    from tamis_lab.report.contents import statement

    wanted = {name.upper() for name in names}
    for experiment in find_experiments(names):
        chosen = wanted & experiment.claims.keys() or experiment.claims.keys()
        for claim in (name for name in experiment.claims if name in chosen):
            judge = experiment.claims[claim]
            if json:
                statements = [{"label": label, "text": text} for label, text in statement(judge)]
                record = {"claim": claim, "experiment": experiment.name, "paper_value": judge.paper_value}
                write_json_lines([{**record, "statements": statements}])
                continue
            output().say(f"{claim} ({experiment.name}): {judge.paper_value}", "bold")
            for label, text in statement(judge):
                output().say(f"  {label}: {text}")


@app.command("run", epilog=EPILOG)
def run(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Experiments, papers (mics) or claims (Z7), or all.")
    ],
    scale: ScaleOption = Scale.SMALL,
    out: Out = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same rows, but for clock times.")] = 0,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Where Spark runs, as spark://host:7077; this machine otherwise.")
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Configurations as Spark tasks, or one by one in this process.")
    ] = True,
    again: Annotated[bool, typer.Option("--again", help="Run what is done already once more.")] = False,
    one_commit: Annotated[
        bool, typer.Option("--one-commit", help="Run what was not made by this commit of the sources once more.")
    ] = False,
    first: Annotated[
        bool, typer.Option("--first", help="One draw of each configuration, for `tamis lab cost`; no rows are written.")
    ] = False,
    json: Json = False,
) -> None:
    """Run experiments: rows to Parquet files, pictures of them, and a verdict on every claim.

    What a run that was stopped had finished is not done again. A claim that does not hold is a finding, not a failure:
    the exit code is 0.
    """
    from tamis.cli.screen import output
    from tamis_lab.registry import find_experiments
    from tamis_lab.results import Results, Setting
    from tamis_lab.running import judge

    experiments = find_experiments(names)
    results = Results(_directory(out, scale))
    setting = Setting(scale, seed, _clean_commit() if one_commit else "")
    _run(experiments, results, setting, master if spark else _HERE, again, first, quiet=json)
    if first:
        return
    findings = judge(experiments, results)
    _show(findings, json)
    if not json:
        output().say(f"rows and pictures: {results.directory}", "dim")


#: Not a master of Spark: this process.
_HERE = "here"


def _directory(out: Path | None, scale: Scale) -> Path:
    return out or Path("build") / "lab" / scale.value


def _clean_commit() -> str:
    """Return the commit of the sources; an error where they differ from it."""
    from tamis.errors import ModelError
    from tamis_lab.results import source_commit

    commit = source_commit()
    if not commit or commit.endswith("+changes"):
        raise ModelError("--one-commit needs the sources of tamis in a Git repository, without changes below src")
    return commit


def _run(
    experiments: Sequence[Experiment],
    results: Results,
    setting: Setting,
    master: str | None,
    again: bool,
    first: bool,
    *,
    quiet: bool,
) -> None:
    """Run experiments one after another and draw each when its rows are there."""
    from tamis.plots.canvas import new_figure
    from tamis_lab.commands.progress import LabProgress
    from tamis_lab.figures import draw_figures
    from tamis_lab.running import here, on_spark, run_experiments

    new_figure(1, 1)  # so that a missing matplotlib is known before hours of work
    pieces = here if master == _HERE else on_spark(master)
    with _session(master), LabProgress(experiments, quiet=quiet) as progress:
        for experiment in experiments:
            for step in run_experiments([experiment], results, setting, pieces, again, first):
                progress.show(step)
            if not first:
                draw_figures(experiment, results)


@contextlib.contextmanager
def _session(master: str | None) -> Iterator[None]:
    """Stop a session that was started inside."""
    if master == _HERE:
        yield
        return
    from tamis.spark.running.progress import own_session

    with own_session():
        yield


def _show(findings: Sequence[Finding], json: bool) -> None:
    from tamis.cli.screen import write_json_lines
    from tamis_lab.commands.screen import as_row, show_findings

    if json:
        write_json_lines([as_row(finding) for finding in findings])
    else:
        show_findings(findings)


@app.command("cost", epilog=EPILOG)
def cost(
    scale: ScaleOption = Scale.SMALL,
    out: Out = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the run.")] = 0,
    json: Json = False,
) -> None:
    """Show the processor time of each experiment: what was spent, and what all its draws are expected to take.

    Run with --first before: what a draw takes tells what the other draws of its configuration will.
    """
    from tamis.cli.screen import make_table, output, write_json_lines
    from tamis_lab.registry import EXPERIMENTS
    from tamis_lab.results import Results, Setting
    from tamis_lab.running import cost_of

    results = Results(_directory(out, scale))
    costs = [cost_of(experiment, results, Setting(scale, seed)) for experiment in EXPERIMENTS.values()]
    if json:
        write_json_lines([each._asdict() for each in costs])
        return
    table = make_table("experiment", "done", "draws", "minutes spent", "minutes expected")
    for each in costs:
        expected = "?" if each.expected_seconds is None else f"{each.expected_seconds / 60:.1f}"
        table.add_row(each.experiment, f"{each.done:,}", f"{each.pieces:,}", f"{each.spent_seconds / 60:.1f}", expected)
    output().print(table)
    total = sum(each.expected_seconds or 0 for each in costs) / 3_600
    missing = [each.experiment for each in costs if each.expected_seconds is None]
    without = f", without {', '.join(missing)}" if missing else ""
    output().say(f"{total:.1f} hours of processor time in all{without}", "bold")


@app.command("report", epilog=EPILOG)
def report(scale: ScaleOption = Scale.SMALL, out: Out = None, json: Json = False) -> None:
    """Make a report of all rows in a directory: figures, the papers' numbers, ours, and the verdicts.

    Writes report.html (one file, no script), report.md with a page for each paper, and findings.json beside the rows.
    Nothing is computed again.
    """
    from tamis.cli.screen import output
    from tamis_lab.report.writing import write_report
    from tamis_lab.results import Results

    results = Results(_directory(out, scale))
    written, findings = write_report(results)
    _show(findings, json)
    if not json:
        output().say(f"wrote {', '.join(map(str, written))}", "bold")


@app.command("compare", epilog=EPILOG)
def compare(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="A directory of results.")],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="Another one: another seed, commit or machine.")],
    kept: Annotated[
        bool, typer.Option("--keep", help="Write comparison.json into SECOND, so that its report says what changed.")
    ] = False,
    json: Json = False,
) -> None:
    """Compare the verdicts of two runs claim by claim, and say which of them changed.

    The rows of both are judged by the present rules. The exit code is 1 if a verdict other than "undecided" changed, or
    if one of the runs cannot judge a claim of the other.
    """
    from tamis.cli.failures import NO
    from tamis.cli.screen import write_json_lines
    from tamis_lab.commands.screen import as_comparison_row, show_comparison
    from tamis_lab.report.comparison import compare_runs, keep
    from tamis_lab.results import Results

    comparison = compare_runs(Results(first), Results(second))
    if kept:
        keep(comparison, Results(second))
    if json:
        write_json_lines([as_comparison_row(each) for each in comparison.claims])
    else:
        show_comparison(comparison)
    raise typer.Exit(0 if comparison.repeats else NO)
