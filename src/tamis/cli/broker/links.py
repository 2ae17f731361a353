"""``tamis serve links``: the links of a broker to others; one that is dead can be skipped while the broker runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tamis.cli.broker.publish import Insecure, Secret, Url
from tamis.cli.options import Json, examples

__all__ = ["EPILOG", "links"]

EPILOG = examples(
    "tamis serve links",
    "tamis serve links --skip north",
    "TAMIS_TOKEN=... tamis serve links --resume north --url https://south.example:8443",
)


def links(
    skip: Annotated[
        str | None,
        typer.Option("--skip", metavar="LINK", help="Send no event over this link and wait for none of its answers."),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="LINK", help="Send events again; clients behind it are told of the gap."),
    ] = None,
    url: Url = "http://127.0.0.1:8080",
    token: Secret = None,
    insecure: Insecure = False,
    json: Json = False,
) -> None:
    """List the links to other brokers. A dead one that stops publishers or subscribers can be skipped."""
    from urllib.parse import quote

    import msgspec

    from tamis.cli.screen import make_table, output, plain, write_json
    from tamis.errors import ModelError
    from tamis.runtime.client.http_calls import HttpCalls

    if skip is not None and resume is not None:
        raise ModelError("name a link with --skip or with --resume, not with both")
    calls = HttpCalls(url, token or "", patience=0.0, insecure=insecure)
    for name, action in ((skip, "skip"), (resume, "resume")):
        if name is not None:
            calls.call("POST", f"/v1/links/{quote(name, safe='')}/{action}", body=b"")
    found = msgspec.json.decode(calls.call("GET", "/v1/links"))
    if json:
        write_json(found)
        return
    columns = ("link", "connected", "skipped", "full", "when_full", "waiting", "dropped")
    table = make_table(*columns, right=("waiting", "dropped"))
    for link in found["links"]:
        table.add_row(*(plain(str(link[name])) for name in columns))
    output().print(table)
