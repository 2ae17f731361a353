"""OGC's published examples of CQL2, 120 texts and 109 JSON documents: which are accepted, and that both forms agree.

``ogc_forms.json`` has the form of every example under the name of its file in the repository of the standard
(``cql2/standard/schema/examples``): attributes are numbered, words of strings are ``ab``, numbers are doubled.
``docs/language.md`` states the counts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.model.language.compiler import compile_text
from tamis.model.schema import Schema

FORMS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("ogc_forms.json").read_text("utf-8"))
#: Example -> the function that it makes up, which the refusal names.
REFUSED = {
    "clause6_01": "avg",
    "clause6_02b": "avg",
    "clause7_18": "Buffer",
    "example68": "Foo",
    "example69": "Bar",
}
_CROSSED, _OUTSIDE = "not a simple polygon: Ring Self-intersection", "not a valid Polygon: Hole lies outside shell"
#: Example -> what its region must be declared as, and the words of the refusals without each part of the declaration:
#: three have a third coordinate, four a polygon that is invalid by OGC's own rules.
DECLARED: dict[str, tuple[tamis.Region, dict[str, tamis.Region]]] = {
    "example45": (tamis.Region(z="drop"), {"third coordinate": tamis.Region()}),
    **dict.fromkeys(
        ("example46", "example46-alt01"), (tamis.Region(invalid="repair"), {_CROSSED: tamis.Region(z="drop")})
    ),
    **dict.fromkeys(
        ("example49", "example49-alt01"),
        (
            tamis.Region(z="drop", invalid="repair"),
            {_OUTSIDE: tamis.Region(z="drop"), "third coordinate": tamis.Region(invalid="repair")},
        ),
    ),
}
SCHEMAS = {name: Schema({"n1": kind}) for name, (kind, _) in DECLARED.items()}


def accepted(form: str) -> list[str]:
    """Return the examples of a form that are accepted; the others must be refused for the expected reason."""
    examples = []
    for name, forms in FORMS.items():
        if form not in forms:
            continue
        engine = tamis.Engine(SCHEMAS.get(name))
        if name in REFUSED:
            with pytest.raises(tamis.SubscriptionError, match=f"(?i){REFUSED[name]}"):
                engine.subscribe(forms[form])
        else:
            engine.subscribe(forms[form])
            examples.append(name)
    return examples


@pytest.mark.parametrize(("form", "n_accepted", "n_all"), [("text", 115, 120), ("json", 104, 109)])
def test_all_are_accepted_but_made_up_functions(form: str, n_accepted: int, n_all: int) -> None:
    names = [name for name in FORMS if form in FORMS[name]]
    assert len(names) == n_all
    assert accepted(form) == [name for name in names if name not in REFUSED]
    assert len(accepted(form)) == n_accepted
    page = " ".join((Path(__file__).parents[3] / "docs" / "language.md").read_text("utf-8").split())
    assert f"{n_accepted} of {n_all}" in page


@pytest.mark.parametrize("name", DECLARED)
@pytest.mark.parametrize("form", ["text", "json"])
def test_what_a_region_must_be_declared_as_is_the_next_step_of_the_refusal(name: str, form: str) -> None:
    if form not in FORMS[name]:
        return
    for words, lesser in DECLARED[name][1].items():
        with pytest.raises(tamis.SubscriptionError, match=words) as refusal:
            tamis.Engine(Schema({"n1": lesser})).subscribe(FORMS[name][form])
        assert f"Region({'z=' if 'third' in words else 'invalid='}" in str(refusal.value)


def test_the_text_and_the_json_of_an_example_mean_the_same() -> None:
    both = [name for name in FORMS if name not in REFUSED and "json" in FORMS[name]]
    assert len(both) == 104
    for name in both:
        text, document = (compile_text(FORMS[name][form], SCHEMAS.get(name)) for form in ("text", "json"))
        assert text.filters == document.filters, name
