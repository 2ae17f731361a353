"""How docstrings become pages: examples are shown as code, and text after the parameters as notes.

A Griffe extension, named in zensical.toml. The house writes examples as doctests without a heading and remarks after
the list of parameters; Griffe would take the first for quotations and the second for more parameters.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

HEADING = re.compile(r"^(Parameters|Returns|Raises)\n-+\n", re.MULTILINE)


def shown(text: str) -> str:
    """Return a docstring in the form that Griffe's parser of numpy style expects."""
    blocks = text.split("\n\n")
    listing = False
    for number, block in enumerate(blocks):
        if block.startswith(">>>"):
            block = f"```pycon\n{block}\n```"
        is_list = bool(HEADING.match(block))
        if listing and not is_list and not block.startswith(" ") and "\n    " not in block:
            block, listing = f"Notes\n-----\n{block}", False
        listing = listing or is_list
        blocks[number] = block
    return "\n\n".join(blocks)


class DocstringPages(griffe.Extension):
    """Rewrites every docstring by `shown` after it was loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = shown(obj.docstring.value)
