"""``tamis pipeline``: subscriptions and events in files, deliveries in files, through Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.options import Json, examples

if TYPE_CHECKING:
    from tamis.cli.kernels import Compilation
    from tamis.spark import Pipeline
    from tamis.spark.pipelines.report import Report

__all__ = ["EPILOG", "app", "demo", "init", "run"]

EPILOG = examples(
    "tamis pipeline demo",
    "tamis pipeline init alerts.toml",
    "tamis pipeline run alerts.toml",
    "tamis pipeline run alerts.toml --master local[4] --out /tmp/alerts --json",
)

app = typer.Typer(
    help="Match files of events with files of subscriptions on Spark.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
)

Master = Annotated[
    str | None, typer.Option(metavar="URL", help="Where Spark runs, as local[2] or spark://host:7077; here otherwise.")
]


@app.command("run", epilog=EPILOG)
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A pipeline as TOML; `tamis pipeline init` writes one.")],
    master: Master = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIRECTORY", help="Where the output goes, instead of where the file says.")
    ] = None,
    json: Json = False,
) -> None:
    """Run a pipeline: read, compile, snapshot, match; deliveries and what was refused go to Parquet files.

    The output directory is replaced as a whole: a second run leaves the same files, not more of them.
    """
    import tamis.spark
    from tamis.cli.kernels import compiling
    from tamis.cli.pipeline.screen import show_report, show_where
    from tamis.cli.screen import write_json
    from tamis.spark.running.progress import own_session

    pipeline = _adjusted(tamis.spark.Pipeline.from_file(file), master, out)
    with compiling(pipeline.options.master) as kernels, own_session():
        report = _watched(pipeline, json, kernels)
    if json:
        write_json(report.as_json())
    else:
        show_report(report)
        show_where(report)


@app.command("demo", epilog=EPILOG)
def demo(
    out: Annotated[
        Path, typer.Option(metavar="DIRECTORY", help="Where data, pipelines, results and the picture go.")
    ] = Path("tamis-demo"),
    master: Master = None,
    json: Json = False,
) -> None:
    """Route real storms to the counties of the United States, and earthquakes to regions, from files to a map."""
    import tamis.spark
    from tamis.cli.kernels import compiling
    from tamis.cli.pipeline.demo import SHORT_JOB, Demo
    from tamis.cli.screen import write_json
    from tamis.spark.running.progress import own_session

    demonstration = Demo(out, quiet=json)
    with compiling(master) as kernels, own_session():
        demonstration.write_data()
        for file in demonstration.files:
            pipeline = _adjusted(tamis.spark.Pipeline.from_file(file), master, None, SHORT_JOB)
            # The second job finds the session of the first one running.
            spark = tamis.spark.session(master) if demonstration.reports else None
            demonstration.reports.append(_watched(pipeline, json, kernels, spark=spark))
    demonstration.draw()
    if json:
        write_json(demonstration.as_json())
    else:
        demonstration.show()


@app.command("init", epilog=EPILOG)
def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write, as alerts.toml.")],
    json: Json = False,
) -> None:
    """Write a pipeline to start from: every key, with a comment. A file that exists is left alone."""
    from tamis.cli.screen import output, write_json
    from tamis.errors import ModelError
    from tamis.spark.pipelines.pipeline_file import EXAMPLE

    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(EXAMPLE)
    except FileExistsError:
        raise ModelError(f"{file}: exists already; choose another name or remove it") from None
    if json:
        write_json({"file": str(file)})
    else:
        output().say(f"wrote {file}; name your files in it, then: tamis pipeline run {file}")


def _adjusted(
    pipeline: Pipeline, master: str | None, out: Path | None, spark: Mapping[str, str] | None = None
) -> Pipeline:
    """Return the pipeline with the master and output of the command line, and with more settings of Spark."""
    import msgspec

    options = pipeline.options
    settings = {**options.spark, **(spark or {})}
    options = msgspec.structs.replace(options, master=master or options.master, spark=settings)
    output = pipeline.output if out is None else str(out.absolute())
    return msgspec.structs.replace(pipeline, options=options, output=output)


def _watched(pipeline: Pipeline, quiet: bool, kernels: Compilation, spark: Any = None) -> Report:
    """Run a pipeline with its progress shown; the first stage that needs kernels waits until they are compiled."""
    import tamis.spark
    from tamis.cli.pipeline.progress import StageProgress

    progress = StageProgress(quiet=quiet)

    @contextmanager
    def watch(name: str) -> Iterator[None]:
        if name == "compile" and kernels.is_running:
            progress.announce("compiling kernels: once, up to a minute ...")
            with progress.watch("compile kernels"):
                kernels.wait()
        with progress.watch(name):
            yield

    return tamis.spark.run_pipeline(pipeline, spark=spark, watch=watch)
