"""``tamis import sigma``: detection rules in YAML become subscriptions."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.options import examples

if TYPE_CHECKING:
    from tamis.files.sigma_rules import SigmaRecords

__all__ = ["EPILOG", "import_sigma"]

EPILOG = examples(
    "tamis import sigma rules/ --out subscriptions.jsonl",
    "tamis import sigma rule.yml --fields fields.toml",
    "tamis import sigma rules/ --logsource namespace --out subscriptions.jsonl",
    "tamis import sigma rules/ --out subscriptions.jsonl --schema schema.json",
)


class LogSourceUse(StrEnum):
    """What becomes of a rule's log source, besides metadata."""

    METADATA = "metadata"
    CONDITION = "condition"
    NAMESPACE = "namespace"


def import_sigma(
    files: Annotated[list[Path], typer.Argument(metavar="FILES...", help="Rules in YAML, or folders of them.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the subscriptions there as JSONL; printed otherwise.")
    ] = None,
    fields: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What fields are called in events, and their types (TOML)."),
    ] = None,
    logsource: Annotated[
        LogSourceUse,
        typer.Option(
            help="Keep the log source as metadata alone, ask for it (logsource.product = 'windows'), or make it the "
            "namespace (windows-process_creation)."
        ),
    ] = LogSourceUse.METADATA,
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the fields of all rules there as a schema, for a broker or Spark."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON; needs --out.")] = False,
) -> None:
    """Turn Sigma rules into subscriptions of tamis, with title, level, tags and log source as metadata.

    Every rule is written, or named on standard error with the reason. Exit code 0: all of them, 1: some were not.
    """
    from tamis.cli.filters.import_rules import write_subscriptions
    from tamis.cli.screen import errors, write_json
    from tamis.files.sigma_rules import read_sigma_rules
    from tamis.model.language.foreign.sigma_fields import read_fields
    from tamis.model.schema import Schema

    if json and out is None:
        raise typer.BadParameter("--json prints a summary: name a file for the subscriptions with --out")
    sigma = read_sigma_rules(files, read_fields(fields), logsource.value)
    for rule in sigma.refused if not json else ():
        errors().say(f"{rule.path}, rule {rule.name!r}: {rule.reason}", "red")
    if json:
        write_json(_summary(sigma))
    if schema is not None:
        schema.write_text(Schema(dict(sorted(sigma.types.items()))).to_json(), encoding="utf-8")
    write_subscriptions([record.as_json() for record in sigma.records], sigma.n_rules, len(sigma.refused), out)


def _summary(sigma: SigmaRecords) -> dict[str, object]:
    return {
        "rules": sigma.n_rules + len(sigma.refused),
        "imported": sigma.n_rules,
        "subscriptions": len(sigma.records),
        "refused": [{"file": str(rule.path), "rule": rule.name, "reason": rule.reason} for rule in sigma.refused],
        "levels": dict(Counter(record.metadata.get("level", "none") for record in sigma.records)),
    }
