"""Wrong decisions in the language and the model: NOT, the missing value, open and closed ends, patterns."""

from __future__ import annotations

from tests.planted.bug import Bug

LOGIC = "tests/property/test_three_valued.py"
MODEL = "tests/unit/model"

BUGS = [
    Bug(
        "not_does_not_turn_and_into_or",
        "model/language/bind",
        "NOT (a AND b) becomes NOT a AND NOT b.",
        "join = AllOf if isinstance(node, And) != negated else AnyOf",
        "join = AllOf if isinstance(node, And) else AnyOf",
        (f"{LOGIC}::test_trees_predicates_and_filters_agree",),
        costly=True,
    ),
    Bug(
        "not_accepts_the_missing_value",
        "model/language/arithmetic/sets",
        "NOT of a comparison holds for events without the attribute.",
        "allowed = allowed.negated() if negated else allowed",
        "allowed = allowed.complement() if negated else allowed",
        (f"{LOGIC}::test_trees_predicates_and_filters_agree",),
        costly=True,
    ),
    Bug(
        "unequal_accepts_the_missing_value",
        "model/language/arithmetic/sets",
        "x <> 1 holds for events without x.",
        '"<>": lambda kind, value: equal_to(kind, value).negated(),',
        '"<>": lambda kind, value: equal_to(kind, value).complement(),',
        (f"{LOGIC}::test_trees_predicates_and_filters_agree",),
        costly=True,
    ),
    Bug(
        "greater_includes_equal",
        "model/language/arithmetic/sets",
        "x > 1 holds for 1.",
        "    cut = kind.after(value)\n    return EMPTY if cut is None else ValueSet.between(cut, None)",
        "    cut = kind.before(value)\n    return EMPTY if cut is None else ValueSet.between(cut, None)",
        (f"{LOGIC}::test_trees_predicates_and_filters_agree",),
        costly=True,
    ),
    Bug(
        "the_greatest_value_has_something_above_it",
        "model/language/arithmetic/sets",
        "b > TRUE holds for every boolean, because no cut reads as an open end.",
        "    cut = kind.after(value)\n    return EMPTY if cut is None else ValueSet.between(cut, None)",
        "    return ValueSet.between(kind.after(value), None)",
        (f"{MODEL}/test_meaning.py::test_equal_meaning_is_equal_filters",),
    ),
    Bug(
        "a_pattern_and_is_null_hold_together",
        "model/language/normalise",
        "A condition on a value no longer demands that there is a value.",
        "values[constraint.attribute] = values.get(constraint.attribute, PRESENT) & PRESENT",
        "values[constraint.attribute] = values.get(constraint.attribute, PRESENT)",
        (f"{MODEL}/test_meaning.py::test_equal_meaning_is_equal_filters",),
    ),
    Bug(
        "the_hull_of_a_tree_is_that_of_its_first_part",
        "model/language/normalise",
        "A predicate that stays a tree is looked for only where its first alternative can hold.",
        "return {name: ValueSet.any_of([sets[name] for sets in hulls]) for name in shared}",
        "return {name: ValueSet.any_of([sets[name] for sets in hulls[:1]]) for name in shared}",
        (f"{MODEL}/test_meaning.py::TestSize::test_the_hull_of_a_tree",),
    ),
    Bug(
        "two_conditions_on_one_region_are_one_of_them",
        "model/language/normalise",
        "Of two conditions on the same region the last one counts.",
        "            both &= previous.relations\n",
        "            pass\n",
        (f"{MODEL}/test_meaning.py::test_equal_meaning_is_equal_filters",),
    ),
    Bug(
        "prefix_and_suffix_of_a_pattern_overlap",
        "model/pattern",
        "'aba%ba' matches 'aba': the end of the text is used twice.",
        "if end < len(first) or not",
        "if end < 0 or not",
        (f"{MODEL}/test_pattern.py::test_agrees_with_the_textbook",),
    ),
    Bug(
        "a_prefix_ends_in_a_lone_surrogate",
        "model/pattern",
        "The string after all that begin with U+D7FF is half a surrogate pair.",
        "chr(0xE000 if following == 0xD800 else following)",
        "chr(following)",
        (f"{MODEL}/test_pattern.py::test_prefix_stop_makes_no_lone_surrogate",),
    ),
    Bug(
        "minus_zero_is_not_zero",
        "model/values",
        "-0.0 keeps its sign, so equal numbers have different bits.",
        "        return value + 0.0\n    if isinstance(value, bool",
        "        return value\n    if isinstance(value, bool",
        (f"{MODEL}/test_values.py::TestNumber::test_minus_zero_is_zero",),
    ),
    Bug(
        "a_value_on_a_cut_is_below_it",
        "model/value_set",
        "A value that stands right after a cut is taken for one before it.",
        "bisect_right(self.cuts, (value, 0))",
        "bisect_right(self.cuts, (value, -1))",
        (f"{MODEL}/test_value_set.py::test_operations_are_those_of_sets",),
    ),
]
