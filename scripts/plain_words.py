"""Find phrases that a reader has to read twice, and names that do not say what they hold.

    python scripts/plain_words.py

Reads the tracked modules and the documents, and prints file, line, phrase and advice for each finding. In a module it
reads comments, string literals (docstrings among them), the names of tests as sentences, and all names that are bound:
locals, parameters, fields, functions. In a script of a page it reads the whole text, and the names of constants,
variables and parameters. Exits with 1 if there is a finding. `make lint` runs it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "examples", "deploy")
MODULES = ("src/*.py", "scripts/*.py", "examples/*.py", "deploy/*.py", "conftest.py", "tests/*.py", "src/*.js")
#: Shows bad phrases.
EXAMPLES = "tests/test_plain_words.py"
#: Written by programs from other texts, which are checked themselves, or a record of a run.
GENERATED = ("docs/lab/", "docs/papers/")

#: A phrase as a regular expression, in which a space is any white space, and what to write instead.
PHRASES = {
    r"\bwhoever\b": "name the actor: the caller, a reader, a client, a process",
    r"\b(somebody|someone|nobody|anybody|everybody|everyone)\b": "name the actor: a client, no process, every peer",
    r"\b(hear|hears|heard)\b": "receives, is sent, is notified; a callback is called with",
    r"\bwho hears\b": "subscriptions with most deliveries",
    r"\bso many\b(?!( \w+)? that\b)": "a number or the parameter's name: at most ``limit`` rows",
    r"(?<!here\s)\b(is|are) no (?!longer\b|more\b|less\b|other\b)\w+": "is not a ...; for an error: expected A, got B",
    r"\bstands? twice\b": "duplicate key, duplicate id",
    r"\btold as\b": "is shown as",
    r"\btold anew\b": "is reported again",
    r"\bsuch a one\b": "repeat the noun",
    r"\band the like\b": "such as A or B; and similar ...",
    r"\banew\b": "again",
    r"\b(any more)\b": "no longer ...; from now on",
    r"\b(by|because of|covers) whom\b": "which subscriptions cover which",
    r"\bsees? to\b(?! it)": "ensures, checks",
}

#: Names that say nothing about the value behind them, and what to write instead.
NAMES = {
    "one": "the noun: subscription, row, message",
    "ones": "the noun: subscriptions, rows, messages",
    "found": "what was found: matches, reports, problem",
    "asked": "what was asked for: request, subscription, question",
    "told": "what it is: message, reply, headers",
    "said": "what it is: text, reply, contents",
    "given": "what it is: options, body, declared",
    "known": "what it is: names, saved, schema",
    "heard": "what it is: messages, deliveries",
    "barred": "excluded",
    "gone": "removed, expired",
    "whose": "namespaces, owner",
    "there": "what is there: columns, present",
}
#: The tables of this module hold what they forbid.
TABLES = ("PHRASES", "NAMES")

_PATTERNS = {re.compile(phrase.replace(" ", r"\s+"), re.IGNORECASE): advice for phrase, advice in PHRASES.items()}
#: In a script: what is declared, the parameters of a function, those of an arrow function.
_DECLARED = re.compile(r"\b(?:const|let)\s+(\w+)|\bfunction\s*\w*\(([^)]*)\)|(?:\(([^()]*)\)|\b(\w+))\s*=>")
_INDENT = re.compile(r"\n[ \t]+")
_F_STRING, _FIELD = re.compile(r"[rR]?[fF][rR]?[\"']"), re.compile(r"\{[^{}\n]*\}")
_TEXT_TOKENS = {
    tokenize.COMMENT,
    tokenize.STRING,
    getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING),  # from Python 3.12
}


class Finding(NamedTuple):
    """A phrase at a line, and what to write instead."""

    line: int
    phrase: str
    advice: str


def findings(text: str, first: int = 1) -> Iterator[Finding]:
    """Yield the bad phrases of a text that begins at line ``first``.

    >>> list(findings("the caller closes the file"))
    []
    """
    text = _INDENT.sub("\n", text)
    for pattern, advice in _PATTERNS.items():
        for match in pattern.finditer(text):
            if not match[0].isupper():  # the name of a constant
                yield Finding(first + text.count("\n", 0, match.start()), " ".join(match[0].split()), advice)


def findings_in(path: Path) -> list[Finding]:
    """Return the findings of a document, or of the comments and literals of a module, by line."""
    if path.suffix == ".js":
        script = path.read_text(encoding="utf-8")
        return sorted([*findings(script), *names_in_script(script)])
    if path.suffix != ".py":
        return sorted(findings(path.read_text(encoding="utf-8")))
    with tokenize.open(path) as file:
        source = file.read()
    if path == Path(__file__).resolve():
        source = _without_tables(source)
    lines = iter(source.splitlines(keepends=True))
    tokens = [token for token in tokenize.generate_tokens(lambda: next(lines, "")) if token.type in _TEXT_TOKENS]
    in_texts = [finding for token in tokens for finding in findings(_words(token), token.start[0])]
    return sorted([*in_texts, *sentences_in(source), *names_in(source)])


def names_in(source: str) -> Iterator[Finding]:
    """Yield the names that a module binds and that do not say what they hold; leading underscores do not count.

    >>> [(finding.line, finding.phrase) for finding in names_in("for one in rows:\\n    found = one.id")]
    [(1, 'one'), (2, 'found')]
    """
    for node in ast.walk(ast.parse(source)):
        name = _bound_name(node)
        if name is not None and (advice := NAMES.get(name.strip("_").lower())) is not None:
            yield Finding(node.lineno, name, advice)  # type: ignore[attr-defined]


def names_in_script(script: str) -> Iterator[Finding]:
    """Yield the names that a script declares and that do not say what they hold.

    >>> [
    ...     (finding.line, finding.phrase)
    ...     for finding in names_in_script("const found = rows\\n.map((one, i) => one.id);")
    ... ]
    [(1, 'found'), (2, 'one')]
    """
    for match in _DECLARED.finditer(script):
        for name in re.findall(r"\w+", " ".join(filter(None, match.groups()))):
            if (advice := NAMES.get(name.lower())) is not None:
                yield Finding(1 + script.count("\n", 0, match.start()), name, advice)


def sentences_in(source: str) -> Iterator[Finding]:
    """Yield the bad phrases in names of tests, which are sentences."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield from findings(node.name.replace("_", " "), node.lineno)


def _bound_name(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
            return name
    return None


def _words(token: tokenize.TokenInfo) -> str:
    """Return the text of a token; until Python 3.11 an f-string is one token, with names in its fields."""
    return _FIELD.sub(" ", token.string) if _F_STRING.match(token.string) else token.string


def _without_tables(source: str) -> str:
    """Return the source of this module with empty lines where its tables are."""
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in TABLES:
            end = node.end_lineno or node.lineno
            lines[node.lineno - 1 : end] = [""] * (end - node.lineno + 1)
    return "\n".join(lines) + "\n"


def checked_files() -> list[Path]:
    """Return the tracked modules and documents."""
    command = ["git", "ls-files", "-z", "--", *MODULES, *DOCUMENTS]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return [
        ROOT / name
        for name in names
        if name.endswith((".py", ".md", ".js"))
        and not name.startswith((*GENERATED, EXAMPLES))
        and (ROOT / name).is_file()
    ]


def main() -> int:
    """Print all findings; return 1 if there is one."""
    count = 0
    for path in checked_files():
        for line, phrase, advice in findings_in(path):
            print(f"{path.relative_to(ROOT)}:{line}: {phrase!r}: write {advice}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
