"""Wrong decisions about text: a wildcard, a literal, a row or an anchor is misread, so that rules lose events."""

from __future__ import annotations

from tests.planted.bug import Bug

TEXTS = "tests/unit/index_packed/test_texts.py"
REGEX = "tests/unit/model/test_regex.py"

BUGS = [
    Bug(
        "a_wildcard_takes_one_byte",
        "kernels/text/like",
        "The wildcard `_` takes the first byte of a character.",
        "        if program[i] == ONE_CHARACTER:\n"
        "            while j < stop and text[j] & 0xC0 == 0x80:\n                j += 1\n",
        "",
        (f"{TEXTS}::test_programs_fit_what_patterns_match",),
    ),
    Bug(
        "the_last_place_of_a_piece_is_not_tried",
        "kernels/text/like",
        "A piece that ends with its text is not found.",
        "past, budget = stop - size + 1,",
        "past, budget = stop - size,",
        (f"{TEXTS}::test_programs_fit_what_patterns_match",),
    ),
    Bug(
        "the_end_of_a_pattern_overlaps_its_pieces",
        "kernels/text/like",
        "The pieces of a pattern may lie within its end.",
        "    stop = _start_of_end(program, last_piece, end, text, j, stop)\n",
        "    if _start_of_end(program, last_piece, end, text, j, stop) < 0:\n        return False\n",
        (f"{TEXTS}::test_programs_fit_what_patterns_match",),
    ),
    Bug(
        "masks_keep_the_bits_of_a_pattern",
        "kernels/text/like",
        "The search for one piece leaves its bits to the next one.",
        "    for k in range(i, end):\n        masks[program[k]] = 0\n",
        "",
        (f"{TEXTS}::test_programs_fit_what_patterns_match",),
    ),
    Bug(
        "a_literal_within_another_is_not_reported",
        "kernels/text/automaton",
        "A literal that ends inside a longer one is found only if the longer one is not there.",
        "link[s] = fail[s] if own[fail[s]] >= 0 else link[fail[s]]",
        "link[s] = 0",
        (f"{TEXTS}::test_a_finder_finds_every_literal_in_each_row",),
    ),
    Bug(
        "a_literal_may_begin_in_the_row_before",
        "kernels/text/scan",
        "A literal whose first bytes are in the row before is reported.",
        "            if end - automaton.sizes[i] >= offsets[row]:\n",
        "            if end >= offsets[row]:\n",
        (f"{TEXTS}::test_a_finder_finds_every_literal_in_each_row",),
    ),
    Bug(
        "windows_at_the_end_of_a_row_begin_one_byte_early",
        "kernels/text/windows",
        "What a row ends with is compared one byte too early.",
        "begin = start if at_start else stop - length",
        "begin = start if at_start else max(start, stop - length - 1)",
        (f"{TEXTS}::test_a_finder_finds_every_literal_in_each_row",),
    ),
    Bug(
        "the_gram_of_a_literal_is_not_noted",
        "kernels/text/windows",
        "Literals that are longer than a gram are not looked for.",
        "        if sizes[i] >= windows.gram:\n",
        "        if sizes[i] == windows.gram:\n",
        (f"{TEXTS}::test_a_finder_finds_every_literal_in_each_row",),
    ),
    Bug(
        "a_long_end_is_looked_for_by_its_start",
        "index/packed/texts/literals",
        "The literal at the end of a text is cut at the wrong side.",
        "literal = text[:LONGEST] if anchor is Anchor.START else text[-LONGEST:]",
        "literal = text[:LONGEST]",
        (f"{TEXTS}::test_a_literal_at_an_end_is_found_there_alone",),
    ),
    Bug(
        "an_optional_part_is_required",
        "index/packed/texts/literals",
        "A part of an expression that may be missing must be there.",
        "if isinstance(part, Repeat) and part.least:",
        "if isinstance(part, Repeat):",
        (f"{TEXTS}::test_a_part_that_may_be_missing_is_not_required",),
    ),
    Bug(
        "a_negated_pattern_has_required_literals",
        "index/packed/texts/literals",
        "NOT LIKE is looked for by the literals that it excludes.",
        "if not isinstance(predicate, Like) or predicate.negated:",
        "if not isinstance(predicate, Like):",
        (f"{TEXTS}::test_matches_are_those_of_the_linear_matcher_under_churn",),
    ),
    Bug(
        "an_alternative_without_a_literal_is_forgotten",
        "index/packed/texts/literals",
        "An alternative without a literal is forgotten, and only the others are looked for.",
        "        if not groups:\n            return []\n        best",
        "        if not groups:\n            continue\n        best",
        (f"{TEXTS}::test_an_alternative_without_a_literal_needs_none",),
    ),
    Bug(
        "folding_leaves_capital_letters",
        "model/text/folding",
        "Case folding of letters outside ASCII is that of lower case.",
        "        return text.casefold() if fold else text\n",
        "        return text.lower() if fold else text\n",
        (f"{REGEX}::test_folds_are_idempotent_and_commute",),
    ),
]
