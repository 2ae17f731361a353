"""The demonstration of the pipeline: real storms over real counties, and a week of earthquakes over their regions.

It writes data and pipelines as a user would have them, so that each step can be repeated and changed by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import shapely

from tamis.cli.pipeline.screen import show_report, show_top
from tamis.cli.screen import errors, jsonable, output, program
from tamis.demo import datasets
from tamis.errors import MissingExtraError, ModelError
from tamis.model.geometry_text import read_wkbs

if TYPE_CHECKING:
    from tamis.spark.pipelines.report import Report

__all__ = ["SHORT_JOB", "Demo", "summarise"]

#: Settings for jobs of seconds. Java's second compiler and its concurrent collector would use both cores for code and
#: memory that are no longer needed when they are done.
SHORT_JOB = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}

_STORMS = """\
# Storms over the Atlantic, 1975 to 2022, and the subscriptions of counties in the United States.
# Run it again: tamis pipeline run {folder}/storms.toml
snapshot = "snapshots/storms"
output = "storms"

[subscriptions]
path = "data/storm-questions.parquet"

[events]
path = "data/storms"               # a directory of files
format = "geoparquet"              # the file says that `disc`, the field of strong winds, is a region
id = "id"
payload = ["storm", "at", "wind"]
"""

_QUAKES = """\
# A week of earthquakes, the regions they lie in, and some questions about them.
# Run it again: tamis pipeline run {folder}/quakes.toml
snapshot = "snapshots/quakes"
output = "quakes"

[subscriptions]
path = "data/quake-questions.jsonl"

[events]
path = "data/quakes.jsonl"
id = "id"
payload = ["place", "mag"]

[schema]                           # the file has text here
epicentre = "region"
at = "timestamp"

[reduce]                           # beside the snapshot: what links between brokers have to carry
"""

#: The geometry metadata of a GeoParquet file: WKB; without a coordinate system it is longitude and latitude.
_GEO = {"version": "1.1.0", "primary_column": "disc", "columns": {"disc": {"encoding": "WKB", "geometry_types": []}}}
_FILES = 4
#: West, south, east, north: where the storms of the Atlantic come ashore.
_VIEW = (-101.0, 23.5, -66.0, 46.5)
#: Neighbouring counties differ because their subscriptions do.
_COUNTED = "alerts per county, each of which asks for winds from 34, 50, 64 or 96 knots on"


class Demo:
    """The demonstration in a directory: its data, two pipelines, their reports and a map."""

    def __init__(self, directory: Path, *, quiet: bool) -> None:
        self._directory = directory
        self._quiet = quiet
        self.files = [directory / "storms.toml", directory / "quakes.toml"]
        #: One for each pipeline that has run.
        self.reports: list[Report] = []
        self._pictures: list[Path] = []

    def write_data(self) -> None:
        """Write data sets and pipelines; a directory with other things in it is refused."""
        folder = self._directory
        if folder.is_dir() and any(folder.iterdir()) and not self.files[0].exists():
            raise ModelError(f"{folder}: not empty and not of an earlier demonstration; choose another with --out")
        if not self._quiet:
            output().say("tamis pipeline demo: which storm matches which subscriptions?", "bold")
            errors().say(f"writing real counties, storms and earthquakes to {folder} ...", "dim")
        (folder / "data").mkdir(parents=True, exist_ok=True)
        for file, text in zip(self.files, (_STORMS, _QUAKES), strict=True):
            file.write_text(text.format(folder=folder), encoding="utf-8")
        _write_storms(folder / "data")
        _write_quakes(folder / "data")

    def draw(self) -> None:
        """Draw the counties coloured by their number of deliveries; without matplotlib there is no picture."""
        from tamis.plots.canvas import write_figure
        from tamis.plots.maps import draw_map

        of_county = self._heard_by_counties()
        title = f"Storms, 2004 to 2022: {of_county.num_rows:,} alerts to the counties their winds reached"
        try:
            figure = draw_map(_counted(of_county), _alarming(of_county), title=title, counted=_COUNTED, view=_VIEW)
        except MissingExtraError as error:
            errors().say(f"no picture: {error}", "yellow")
            return
        for suffix in (".svg", ".png"):
            self._pictures.append(self._directory / f"map{suffix}")
            write_figure(figure, self._pictures[-1])

    def _heard_by_counties(self) -> pa.Table:
        deliveries = pq.read_table(self._directory / "storms" / "deliveries", columns=["event_id", "subscription_id"])
        return deliveries.filter(pc.starts_with(deliveries["subscription_id"], "county-"))

    def as_json(self) -> dict[str, Any]:
        """Return both reports and where the pictures are."""
        reports = {report.pipeline: report.as_json() for report in self.reports}
        return {**reports, "pictures": [str(path) for path in self._pictures]}

    def show(self) -> None:
        """Print both reports, the subscriptions with most deliveries, and the next commands."""
        for report in self.reports:
            show_report(report)
            show_top(report.top, "Subscriptions with most deliveries")
            if report is self.reports[0]:
                show_top(_top_counties(_counted(self._heard_by_counties())), "The counties among them")
        console = output()
        storms, quakes = self.reports
        console.say("\nWhat happened", "bold")
        for sentence in summarise(storms, quakes, _top_counties(_counted(self._heard_by_counties()))):
            console.say(f"  {sentence}")
        console.say("\nWhere to look next", "bold")
        for picture in self._pictures:
            console.say(f"  {picture.resolve().as_uri()}")
        folder, tamis = self._directory, program()
        for command, comment in (
            (f"{tamis} pipeline run {folder}/storms.toml", "again: the same output, the snapshot is kept"),
            (f"{tamis} verify {folder}/snapshots/storms", "every file of the snapshot, by its checksum"),
            (f"{tamis} pipeline init alerts.toml", "a pipeline of your own"),
            (f"{tamis} demo", "without Spark: matching, explained"),
        ):
            console.say(f"  {command}  # {comment}")
        console.say("Data: NOAA, U.S. Census Bureau, U.S. Geological Survey. More: docs/spark.md", "dim")


def summarise(storms: Report, quakes: Report, counties: Sequence[tuple[str, int]]) -> list[str]:
    """Return three sentences about both runs; ``counties`` are those with most alerts, the first of them first."""
    rejected = sum(report.subscriptions.rejected + report.events.quarantined for report in (storms, quakes))
    name, alerts = counties[0]
    return [
        (
            f"{storms.events.matched_input:,} reports of storms were matched with {storms.subscriptions.accepted:,} "
            f"subscriptions: {storms.deliveries:,} deliveries; {name} has most of the alerts to counties ({alerts:,})."
        ),
        (
            f"{quakes.events.matched_input:,} earthquakes were matched with {quakes.subscriptions.accepted:,} "
            f"subscriptions: {quakes.deliveries:,} deliveries."
        ),
        f"{rejected:,} subscriptions or events were refused; each of them is in a quarantine with its reason.",
    ]


def _write_storms(folder: Path) -> None:
    """Write the storms as GeoParquet, and the subscriptions, including broken ones and a duplicate."""
    counties = datasets.county_subscriptions()
    questions = pa.concat_tables([counties, datasets.broken_subscriptions(), counties.slice(counties.num_rows - 1)])
    pq.write_table(questions, folder / "storm-questions.parquet")
    storms = datasets.storms()
    plain = storms.cast(pa.schema([field.remove_metadata() for field in storms.schema]))
    marked = plain.replace_schema_metadata({"geo": msgspec.json.encode(_GEO)})
    (folder / "storms").mkdir(exist_ok=True)
    n_rows = -(-marked.num_rows // _FILES)
    for number in range(_FILES):  # several files, so that several cores can read
        pq.write_table(marked.slice(number * n_rows, n_rows), folder / "storms" / f"{number}.parquet")


def _write_quakes(folder: Path) -> None:
    """Write the earthquakes and their questions as lines of JSON, geometry as WKT."""
    regions = datasets.quake_regions()
    questions = [{"id": id, "filter": text} for id, text in datasets.quake_subscriptions()]
    borders = shapely.to_wkt(read_wkbs(regions["region"].to_pylist()), rounding_precision=17)
    for code, border in zip(regions["code"].to_pylist(), borders, strict=True):
        questions.append({"id": f"region-{code}", "filter": f"S_WITHIN(epicentre, {border})"})
    _write_lines(folder / "quake-questions.jsonl", questions)
    _write_lines(folder / "quakes.jsonl", datasets.earthquakes().to_pylist())


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    rows_without_nulls = ({name: value for name, value in jsonable(row).items() if value is not None} for row in rows)
    path.write_bytes(msgspec.json.Encoder().encode_lines(list(rows_without_nulls)))


def _alarming(of_county: pa.Table) -> pa.Table:
    """Return the storms that were delivered to a county: whole tracks, and the wind fields that reached one."""
    storms = datasets.storms()
    reached = pc.is_in(storms["id"], pc.unique(of_county["event_id"]))
    fields = pc.if_else(reached, storms["disc"], None)
    shown = storms.set_column(storms.column_names.index("disc"), "disc", fields)
    return shown.filter(pc.is_in(storms["storm"], pc.unique(storms["storm"].filter(reached))))


def _counted(of_county: pa.Table) -> pa.Table:
    """Return the counties with the number of deliveries to each."""
    counts = {entry["values"]: entry["counts"] for entry in of_county["subscription_id"].value_counts().to_pylist()}
    counties = datasets.counties()
    return counties.append_column("count", [[counts.get(id, 0) for id in _county_ids(counties)]])


def _county_ids(counties: pa.Table) -> list[str]:
    return [f"county-{row['fips']}-{row['part']}" for row in counties.select(["fips", "part"]).to_pylist()]


def _top_counties(counted: pa.Table) -> list[tuple[str, int]]:
    """Return the counties with most deliveries, under their names."""
    top = counted.sort_by([("count", "descending"), ("fips", "ascending"), ("part", "ascending")]).slice(0, 5)
    return [(f"{row['name']}, {row['state']}", row["count"]) for row in top.drop_columns("region").to_pylist()]
