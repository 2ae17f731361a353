"""Write the table of records in docs/disk-format.md from `tamis.node.records`.

    python scripts/disk_format.py

What people wrote around the two marks stays. A test demands that the page is current.
"""

from __future__ import annotations

from pathlib import Path

from tamis.node.records import KINDS, Kind, RecordForm

PAGE = Path(__file__).resolve().parents[1] / "docs" / "disk-format.md"
BEGIN = "<!-- written by scripts/disk_format.py from node/records.py: do not edit by hand -->"
END = "<!-- end of what scripts/disk_format.py writes -->"


def table() -> str:
    """Return the kinds of records as Markdown, one table for each table of the file."""
    lines = []
    for form in RecordForm:
        lines += [f"### `{form.value}`", "", "| key | holds | value | owner |", "|---|---|---|---|"]
        lines += [_row(kind) for kind in KINDS.values() if kind.form is form]
        lines.append("")
    return "\n".join(lines)


def page(text: str) -> str:
    """Return a page with the current table between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n{END}{after}"


def _row(kind: Kind[object]) -> str:
    key = ", ".join([f'"{kind.name}"', *kind.parts])
    return f"| `({key})` | {kind.holds} | {kind.layout.words} | `{kind.owner}` |"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
