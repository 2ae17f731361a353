"""Write the rows of a benchmark into ``docs/benchmarks.md``, and its picture beside it.

    tamis bench match --json > rows.jsonl
    python scripts/fill_benchmarks.py rows.jsonl

Rows may come from several runs on the same machine; of two rows about the same thing the later one counts. What
stands between the two marks of the page is replaced, nothing else.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tamis.plots.canvas import write_figure
from tamis_bench.plots.bench import draw_rates
from tamis_bench.report import machine, markdown
from tamis_bench.rows import Row

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
PICTURE = PAGE.with_name("benchmarks.svg")
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def read_rows(paths: list[str]) -> list[Row]:
    """Read files of JSON lines, the later ones on top."""
    lines = [line for path in paths for line in Path(path).read_text(encoding="utf-8").splitlines()]
    rows = [Row.from_json(json.loads(line)) for line in lines]
    return list({(row.work, row.n, row.system, row.what): row for row in rows}.values())


def filled(page: str, rows: list[Row]) -> str:
    """Return the page with new results."""
    head, rest = page.split(BEGIN)
    _, tail = rest.split(END)
    picture = f"![Events per second over the number of subscriptions]({PICTURE.name})"
    return f"{head}{BEGIN}\n{machine()}\n\n{picture}\n\n{markdown(rows)}{END}{tail}"


def main() -> None:
    """Fill the page from the files that are named."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    rows = read_rows(sys.argv[1:])
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    write_figure(draw_rates(rows), PICTURE)


if __name__ == "__main__":
    main()
