"""Build the documentation site into build/site: `make docs`.

The pages are those of docs/ and of the repository's root, with their links adjusted; the reference is made from
docstrings, from the OpenAPI document and from the public names. A link to a page that does not exist stops the build.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import tamis
import tamis.spark
from tamis.web.openapi import document

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"

#: Pages of the root that become pages of the site; README is its home.
OWN_PAGES = {"README.md": "index.md", "CHANGELOG.md": None, "CONTRIBUTING.md": None, "SECURITY.md": None}
#: Other files that pages link to.
OWN_FILES = [
    "LICENSE",
    "CITATION.cff",
    "requirements/lock.txt",
    "src/tamis/data/LICENSES.md",
    "examples/sigma/README.md",
    "examples/notebooks/README.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))),
]

#: The reference of ``tamis`` in the order in which a reader meets the names; what is not here is listed last.
SUBJECTS = {
    "Match events": ["Engine", "Matches", "Subscription", "SubscriptionTable", "EventTable", "Explanation"],
    "Describe events": [
        "Schema",
        "Number",
        "String",
        "Boolean",
        "Timestamp",
        "Date",
        "Region",
        "Vector",
        "Many",
        "Mixed",
        "Decimal",
        "Ip",
        "Uuid",
        "Version",
    ],
    "Compare subscriptions": [
        "covers",
        "Covering",
        "equivalent",
        "conflicts",
        "simplify",
        "covering_index",
        "CoverIndex",
        "reduce",
        "Reduction",
        "subsumed",
        "Subsumption",
        "merge",
        "relation",
        "relations",
        "Relation",
    ],
    "Talk to a broker": ["connect", "consume"],
    "Simulate networks": ["Network", "PeerNetwork"],
    "Types and functions of your own": [
        "register_type",
        "AttributeType",
        "DiscreteType",
        "ScalarType",
        "Form",
        "UnfitError",
        "register_function",
        "unregister_function",
    ],
}
SPARK_SUBJECTS = {
    "Match events": ["session", "match", "matcher", "Matcher", "match_stream", "backtest", "register_functions"],
    "Keep rules in snapshots": [
        "write_snapshot",
        "read_snapshot",
        "update_snapshot",
        "sync_snapshot",
        "sync_stream",
        "compact_snapshot",
        "prune_snapshots",
    ],
    "Run pipelines": ["run_pipeline", "Pipeline"],
}

HTTP_INTRODUCTION = (
    "A running broker serves this description as `/openapi.json`. A refused request has status 4XX and a JSON body "
    "with the reason; 503 asks to try again, and 507 says that the disk is full."
)

LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")


def main() -> None:
    """Collect the pages, write the reference, build the site."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES, ignore=shutil.ignore_patterns("*.parquet"))
    for name, target in OWN_PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        (PAGES / (target or name)).write_text(at_home(text), encoding="utf-8")
    for name in OWN_FILES:
        (PAGES / name).parent.mkdir(parents=True, exist_ok=True)
        (PAGES / name).write_text(at_home((ROOT / name).read_text(encoding="utf-8")), encoding="utf-8")
    for page in PAGES.rglob("*.md"):
        page.write_text(within(page, page.read_text(encoding="utf-8")), encoding="utf-8")
    write_reference()
    if missing := dangling_links():
        sys.exit("links that lead nowhere:\n" + "\n".join(missing))
    (PAGES / "llms.txt").write_text(summary(), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=ROOT, check=True)
    shutil.copy(PAGES / "llms.txt", SITE / "llms.txt")
    folder = SITE.relative_to(ROOT)
    print(f"open {folder}/index.html; its search needs a server: python -m http.server -b 127.0.0.1 -d {folder}")


def at_home(text: str) -> str:
    """Return a page of the root with links as they are from the folder of all pages."""
    return re.sub(r"\]\(((?:\.\./)*)docs/", r"](\1", text).replace("](README.md", "](index.md")


def within(page: Path, text: str) -> str:
    """Return a page of docs/ whose links to files of the root lead to their copies."""
    depth = len(page.relative_to(PAGES).parts) - 1
    return text.replace("](" + "../" * (depth + 1), "](" + "../" * depth)


def dangling_links() -> list[str]:
    """Return the links of all pages to files that are not there."""
    missing = []
    for page in sorted(PAGES.rglob("*.md")):
        for target, _ in LINK.findall(page.read_text(encoding="utf-8")):
            if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists():
                missing.append(f"  {page.relative_to(PAGES)}: {target}")
    return missing


def write_reference() -> None:
    """Write the pages that are made from the sources."""
    folder = PAGES / "reference"
    folder.mkdir()
    names = sorted(name for name in tamis.__all__ if not name.startswith("_"))
    (folder / "python.md").write_text(python_page("tamis", names, SUBJECTS), encoding="utf-8")
    spark = python_page("tamis.spark", sorted(tamis.spark.__all__), SPARK_SUBJECTS)
    (folder / "spark.md").write_text(spark, encoding="utf-8")
    (folder / "http.md").write_text(http_page(document()), encoding="utf-8")


def python_page(package: str, names: list[str], subjects: dict[str, list[str]]) -> str:
    """Return the reference of the public names of a package by subject, each under the name that users import."""
    listed = [name for group in subjects.values() for name in group]
    if unknown := set(listed) - set(names):
        sys.exit(f"{package} has no public names {sorted(unknown)}; correct scripts/build_docs.py")
    errors = [name for name in names if name.endswith("Error") and name not in listed]
    others = [name for name in names if name not in (*listed, *errors)]
    parts = [f"# `{package}`\n"]
    owner = tamis if package == "tamis" else tamis.spark
    for title, group in {**subjects, "Everything else": others, "Errors": errors}.items():
        if group:
            parts.append(f"## {title}\n")
        for name in group:
            home = getattr(getattr(owner, name), "__module__", package)
            options = (
                f"    options:\n      heading: {package}.{name}\n      toc_label: {name}\n      heading_level: 3\n"
            )
            parts.append(f"::: {home}.{name}\n{options}")
    return "\n".join(parts)


def http_page(openapi: dict[str, Any]) -> str:
    """Return the endpoints with what they take and answer."""
    lines = [
        "# HTTP",
        "",
        HTTP_INTRODUCTION,
        "",
    ]
    for path, operations in openapi["paths"].items():
        for verb, operation in operations.items():
            lines += [
                f"## {verb.upper()} {path}",
                "",
                operation.get("summary", ""),
                "",
                operation.get("description", ""),
            ]
            rows = [parameter_row(each) for each in operation.get("parameters", []) if "name" in each]
            lines += ["", "| parameter | in | values | |", "|---|---|---|---|", *rows, ""] if rows else [""]
            if fields := body_rows(openapi, operation.get("requestBody", {})):
                lines += ["The body is JSON:", "", "| field | values | |", "|---|---|---|", *fields, ""]
            for code, answer in operation.get("responses", {}).items():
                if not code.startswith(("4", "5")):
                    lines.append(f"Answers {code}{answer_words(openapi, answer)}.")
            lines.append("")
    return "\n".join(lines)


def resolved(openapi: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema, or the one of ``components`` that it refers to; of several the first."""
    schema = schema.get("oneOf", schema.get("anyOf", [schema]))[0]
    reference = schema.get("$ref", "")
    return openapi["components"]["schemas"][reference.rpartition("/")[2]] if reference else schema


def body_rows(openapi: dict[str, Any], body: dict[str, Any]) -> list[str]:
    """Return a row for each field of a request's JSON body."""
    schema = resolved(openapi, body.get("content", {}).get("application/json", {}).get("schema", {}))
    required = schema.get("required", [])
    rows = []
    for name, field in schema.get("properties", {}).items():
        mark = ", required" if name in required else ""
        rows.append(f"| `{name}`{mark} | {value_words(field)} | {field.get('description', '')} |")
    return rows


def answer_words(openapi: dict[str, Any], answer: dict[str, Any]) -> str:
    """Return the form of an answer: its media type, and the fields of a JSON object."""
    content = answer.get("content", {})
    if "application/json" not in content:
        return f" with {' or '.join(f'`{name}`' for name in content)}" if content else ""
    properties = resolved(openapi, content["application/json"].get("schema", {})).get("properties", {})
    return f" with the fields {', '.join(f'`{name}`' for name in properties)}" if properties else " with JSON"


def parameter_row(parameter: dict[str, Any]) -> str:
    """Return the row of one parameter: its name, where it stands, which values it takes, what it means."""
    values = value_words(parameter.get("schema", {}))
    return f"| `{parameter['name']}` | {parameter['in']} | {values} | {parameter.get('description', '')} |"


def value_words(schema: dict[str, Any]) -> str:
    """Return which values a schema allows, in a few words."""
    values = schema.get("type", "")
    values = " or ".join(values) if isinstance(values, list) else values
    if "enum" in schema:
        values = " or ".join(f"`{value}`" for value in schema["enum"])
    elif "pattern" in schema:
        values = f"`{schema['pattern']}`".replace("|", "\\|")
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        values += f", {least} to {most}"
    elif least is not None or most is not None:
        values += f", at least {least}" if most is None else f", at most {most}"
    return values


def summary() -> str:
    """Return llms.txt: each page with its first sentence."""
    lines = ["# tamis", "", "> Content-based publish/subscribe for Python and Spark.", ""]
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        title = next((line[2:] for line in text.splitlines() if line.startswith("# ")), page.stem)
        paragraph = next((part for part in text.split("\n\n")[1:] if re.match(r"[A-Za-z*`]", part)), "")
        first = re.split(r"(?<=[.:]) ", " ".join(paragraph.split()), maxsplit=1)[0]
        lines.append(f"- [{title}]({page.with_suffix('.html').name}): {first}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
