r"""The dialect of MATCHES: regular expressions that are regular.

=========================== =========================================================================
``. [a-z] [^a-z]``          one character; ``.`` is any but a newline
``\d \w \s \D \W \S``       ASCII digits, word characters, white space, and their complements
``\t \n \r \f \v \a \0``    control characters; ``\xHH``, ``\x{H...}``, ``\uHHHH``, ``\UHHHHHHHH`` any code point
``* + ? {n} {n,} {n,m}``    repetition; a ``?`` behind it changes nothing, since only "whether" is asked
``ab  a|b  (a)  (?:a)``     one after the other, either, groups (a name, ``(?P<name>a)``, is read and ignored)
``^ $ \A \Z``               the start and the end of the text
``\b \B``                   the edge of a word, and anywhere else
``(?!.)``                   the end of the text or of a line
``(?ims)``                  ignore case; ``^`` and ``$`` at every line; ``.`` takes a newline, too: from here to the
                            end of the group
``(?i:a) (?-i:a)``          the same flags for one group, or the lack of them
=========================== =========================================================================

Where only a part of an expression ignores case, it does so character by character: ``(?i:ß)`` is not ``SS``, as it is
in an expression that ignores case throughout.

Back-references, other look-around, conditions, and atomic or possessive groups are refused by name: they are not
regular, so no engine can promise linear time for them. An expression has at most `MAX_LENGTH` characters, a repetition
at most `MAX_REPEAT` copies, and groups nest at most `MAX_DEPTH` deep; `regex` bounds what all repetitions together
become.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn

from tamis.model.text.folding import Fold, fold_pairs, fold_text
from tamis.model.values import UnfitError

__all__ = [
    "ANYTHING",
    "WORD",
    "Alt",
    "Assertion",
    "Chars",
    "Regex",
    "Repeat",
    "Seq",
    "Tree",
    "complement",
    "parse_regex",
]

MAX_LENGTH: Final = 4_096
MAX_REPEAT: Final = 1_000
MAX_DEPTH: Final = 50

_LAST: Final = 0x10FFFF
#: Ranges of code points, both ends included, ascending and apart.
Ranges = tuple[tuple[int, int], ...]

ANYTHING: Final[Ranges] = ((0, _LAST),)
WORD: Final[Ranges] = ((48, 57), (65, 90), (95, 95), (97, 122))
_CLASSES: Final[dict[str, Ranges]] = {"d": ((48, 57),), "w": WORD, "s": ((9, 13), (32, 32))}
_CONTROLS: Final = {"t": 9, "n": 10, "r": 13, "f": 12, "v": 11, "a": 7, "0": 0}
_HEX: Final = {"x": 2, "u": 4, "U": 8}
_REFUSED: Final = (
    ("?=", "look-ahead (?=...)"),
    ("?!", "look-ahead (?!...)"),
    ("?<=", "look-behind (?<=...)"),
    ("?<!", "look-behind (?<!...)"),
    ("?>", "atomic group (?>...)"),
    ("?P=", "back-reference (?P=...)"),
    ("?(", "condition (?(...)...)"),
    ("?#", "comment (?#...)"),
)
#: What to write instead of a part that is refused.
_INSTEAD: Final = {
    "look-ahead": "; ask for that in a condition of its own: AND NOT (... MATCHES '...')",
    "look-behind": "; ask for that in a condition of its own: AND NOT (... MATCHES '...')",
    "back-reference": "; write the texts that it may stand for as alternatives: (aa|bb)",
}
_FLAGS = re.compile(r"\(\?([ims]+)\)")
_FLAGS_INSIDE = re.compile(r"\?([ims]*+)(?:-([ims]++))?([:)])")
_BRACED = re.compile(r"\{([0-9A-Fa-f]{1,6})\}")
_COUNT = re.compile(r"\{([0-9]*+)(,?)([0-9]*+)\}")
_NAMED = re.compile(r"\?P?<[A-Za-z_][A-Za-z0-9_]*+>")


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of ranges of code points."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Assertion:
    """A condition on a position: ``begin``, ``end``, ``line_begin``, ``line_end``, ``word`` or ``not_word``."""

    kind: str


@dataclass(frozen=True, slots=True)
class Seq:
    """One part after the other; none: the empty text."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Alt:
    """One of the parts."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part ``least`` to ``most`` times; None: any number of times."""

    part: Tree
    least: int
    most: int | None


Tree = Chars | Assertion | Seq | Alt | Repeat


@dataclass(frozen=True, slots=True)
class Regex:
    """An expression that was read: its tree, and how the text must be folded before it is compared."""

    tree: Tree
    fold: Fold


def parse_regex(expression: str, fold: Fold = Fold.NONE) -> Regex:
    r"""Read an expression, or raise `UnfitError` that says what is wrong and where.

    >>> parse_regex("a|b").tree
    Alt(parts=(Chars(ranges=((97, 97),)), Chars(ranges=((98, 98),))))
    >>> parse_regex("a*+")
    Traceback (most recent call last):
    tamis.model.values.UnfitError: regular expressions here have no possessive repetition: *+ at character 2
    """
    if len(expression) > MAX_LENGTH:
        raise UnfitError(f"a regular expression has at most {MAX_LENGTH:,} characters, not {len(expression):,}")
    reader = _Reader(expression, fold)
    tree = reader.whole()
    if reader.has_case_flags and not fold & Fold.CASE:
        reader = _Reader(expression, fold, by_character=True)
        tree = reader.whole()
        if not reader.minds_case:  # all letters ignore case, as they do when the text is folded
            reader = _Reader(expression, fold | Fold.CASE)
            tree = reader.whole()
    return Regex(tree, reader.fold)


def complement(ranges: Ranges) -> Ranges:
    """Return the code points outside ranges."""
    gaps, following = [], 0
    for low, high in ranges:
        if low > following:
            gaps.append((following, low - 1))
        following = high + 1
    return (*gaps, (following, _LAST)) if following <= _LAST else tuple(gaps)


def _united(ranges: list[tuple[int, int]]) -> Ranges:
    united: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if united and low <= united[-1][1] + 1:
            united[-1] = united[-1][0], max(united[-1][1], high)
        else:
            united.append((low, high))
    return tuple(united)


def _folded(ranges: Ranges, fold: Fold) -> Ranges:
    """Return ranges with what their characters fold to, where that is a single character."""
    if not fold:
        return ranges
    pairs = ((c, c + 32) for c in range(65, 91)) if ranges and ranges[-1][1] < 128 else fold_pairs(fold)
    if ranges and ranges[-1][1] < 128 and not fold & Fold.CASE:
        return ranges
    more = [(to, to) for code, to in pairs if any(low <= code <= high for low, high in ranges)]
    return _united([*ranges, *more])


@lru_cache(maxsize=256)
def _either_case(ranges: Ranges) -> Ranges:
    """Return ranges with all characters that differ from theirs in case alone."""
    if ranges and ranges[-1][1] < 128:
        # the long s and the sign of the kelvin are the only others that fold to ASCII
        pairs = [*((c, c + 32) for c in range(65, 91)), (0x17F, ord("s")), (0x212A, ord("k"))]
    else:
        pairs = list(fold_pairs(Fold.CASE))
    reached = [(to, to) for code, to in pairs if any(low <= code <= high for low, high in ranges)]
    small = _united([*ranges, *reached])
    return _united([*small, *((code, code) for code, to in pairs if any(low <= to <= high for low, high in small))])


class _Reader:
    """Reads an expression from left to right.

    ``by_character`` letters that ignore case become both, so that others may mind it; otherwise the text is folded.
    """

    def __init__(self, expression: str, fold: Fold, *, by_character: bool = False) -> None:
        self.text = expression
        flags = _FLAGS.match(expression)
        letters = flags[1] if flags else ""
        self.position = flags.end() if flags else 0
        self.by_character = by_character
        self.fold = fold | Fold.CASE if "i" in letters and not by_character else fold
        self.flags = frozenset(letters)
        #: Whether a part has flags of its own about case, and whether a letter outside ``i`` was read.
        self.has_case_flags = self.minds_case = False

    def whole(self) -> Tree:
        tree = self.alternatives(0)
        if self.position < len(self.text):
            self.fail("an opening ( for the )")
        return tree

    def fail(self, wanted: str, position: int | None = None) -> NoReturn:
        at = self.position if position is None else position
        shown = self.text[at : at + 2]
        location = f"{shown} at character {at + 1}" if shown else "at its end"
        raise UnfitError(f"the regular expression needs {wanted}: {location}")

    def refuse(self, what: str, position: int, length: int = 2, instead: str = "") -> NoReturn:
        shown = self.text[position : position + length]
        raise UnfitError(f"regular expressions here have no {what}: {shown} at character {position + 1}{instead}")

    def take(self, text: str) -> bool:
        if self.text.startswith(text, self.position):
            self.position += len(text)
            return True
        return False

    def alternatives(self, depth: int) -> Tree:
        parts = [self.sequence(depth)]
        while self.take("|"):
            parts.append(self.sequence(depth))
        return parts[0] if len(parts) == 1 else Alt(tuple(parts))

    def sequence(self, depth: int) -> Tree:
        parts: list[Tree] = []
        while self.position < len(self.text) and self.text[self.position] not in "|)":
            start = self.position
            part = self.repeated(self.atom(depth), start)
            parts += part.parts if isinstance(part, Seq) else (part,)
        return parts[0] if len(parts) == 1 else Seq(tuple(parts))

    def repeated(self, part: Tree, start: int) -> Tree:
        counts = self.count()
        if counts is None:
            return part
        if isinstance(part, Assertion):
            self.fail("something to repeat before the sign of repetition", start)
        self.take("?")
        behind = self.position
        if self.text[behind : behind + 1] == "+":
            self.refuse("possessive repetition", behind - 1)
        if self.count() is not None:
            self.refuse("repetition of a repetition", behind)
        least, most = counts
        if max(least, most or 0) > MAX_REPEAT:
            self.refuse(f"more than {MAX_REPEAT:,} repetitions", start, behind - start)
        if most is not None and most < least:
            self.fail("a range of repetitions that ascends", start)
        return Repeat(part, least, most)

    def count(self) -> tuple[int, int | None] | None:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                return counts
        count_match = _COUNT.match(self.text, self.position)
        if count_match is None or count_match[0] == "{}":
            return None
        if max(len(count_match[1]), len(count_match[3])) > 9:
            self.refuse(f"more than {MAX_REPEAT:,} repetitions", self.position)
        self.position = count_match.end()
        least = int(count_match[1] or 0)
        return least, least if not count_match[2] else int(count_match[3]) if count_match[3] else None

    def atom(self, depth: int) -> Tree:
        start, character = self.position, self.text[self.position]
        self.position += 1
        if character == "(":
            return self.group(start, depth)
        if character == "[":
            return Chars(self.char_class(start))
        if character == ".":
            return Chars(ANYTHING if "s" in self.flags else complement(((10, 10),)))
        if character in "^$":
            side = "begin" if character == "^" else "end"
            return Assertion(f"line_{side}" if "m" in self.flags else side)
        if character in "*+?":
            self.fail("something to repeat before the sign of repetition", start)
        return self.escape(start) if character == "\\" else self.literal(ord(character))

    def group(self, start: int, depth: int) -> Tree:
        if depth >= MAX_DEPTH:
            raise UnfitError(f"a regular expression whose groups nest at most {MAX_DEPTH} deep")
        if self.take("?!.)"):
            return Assertion("end" if "s" in self.flags else "line_end")
        for sign, name in _REFUSED:
            if self.text.startswith(sign, self.position):
                self.refuse(name, start, len(sign) + 1, _INSTEAD.get(name.split()[0], ""))
        outside = self.flags
        named = _NAMED.match(self.text, self.position)
        if named:
            self.position = named.end()
        elif self.text.startswith("?", self.position) and not self.open_flags(start):
            return Seq(())
        inner = self.alternatives(depth + 1)
        if not self.take(")"):
            self.fail("a closing ) for the (", start)
        self.flags = outside
        return Seq((inner,)) if isinstance(inner, Assertion) else inner  # a group may be repeated, an assertion may not

    def open_flags(self, start: int) -> bool:
        """Read the flags of a group; return whether the group continues after them."""
        flags_match = _FLAGS_INSIDE.match(self.text, self.position)
        if flags_match is None:
            self.refuse("flags other than i, m and s", start, 4)
        self.position = flags_match.end()
        self.has_case_flags |= "i" in flags_match[0]
        self.flags = self.flags.union(flags_match[1]).difference(flags_match[2] or "")
        return flags_match[3] == ":"

    def escape(self, start: int) -> Tree:
        character = self.text[self.position : self.position + 1]
        kinds = {"b": "word", "B": "not_word", "A": "begin", "Z": "end", "z": "end"}
        if character in kinds:
            self.position += 1
            return Assertion(kinds[character])
        if character.lower() in _CLASSES:
            self.position += 1
            return Chars(self.shorthand(character))
        return self.literal(self.escaped(start))

    def shorthand(self, character: str) -> Ranges:
        ranges = _folded(_CLASSES[character.lower()], self.fold)
        return complement(ranges) if character.isupper() else ranges

    def escaped(self, start: int) -> int:
        """Return the code point of an escape whose backslash stands at ``start``."""
        character = self.text[self.position : self.position + 1]
        self.position += 1
        braced = _BRACED.match(self.text, self.position) if character == "x" else None
        if braced and (code := int(braced[1], 16)) <= _LAST and not 0xD800 <= code < 0xE000:
            self.position = braced.end()
            return code
        if character in _HEX:
            digits = self.text[self.position : self.position + _HEX[character]]
            if len(digits) == _HEX[character] and re.fullmatch("[0-9A-Fa-f]+", digits):
                code = int(digits, 16)
                self.position += len(digits)
                if code <= _LAST and not 0xD800 <= code < 0xE000:
                    return code
            self.fail(f"{_HEX[character]} hexadecimal digits of a character", start)
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character.isascii() and character.isdigit():
            self.refuse("back-references", start, instead=_INSTEAD["back-reference"])
        if not character or (character.isascii() and character.isalpha()):
            self.fail("an escape that is known here, such as \\d, \\s, \\w, \\b or \\\\", start)
        return ord(character)

    def literal(self, code: int) -> Tree:
        if not self.fold:
            return Chars(self.cased(((code, code),)))
        parts = tuple(Chars(self.cased(((ord(c), ord(c)),))) for c in fold_text(chr(code), self.fold))
        return parts[0] if len(parts) == 1 else Seq(parts)

    def cased(self, ranges: Ranges) -> Ranges:
        """Return ranges as the flags in force have them."""
        if not self.by_character:
            return ranges
        both = _either_case(ranges)
        if "i" in self.flags:
            return both
        self.minds_case |= both != ranges
        return ranges

    def char_class(self, start: int) -> Ranges:
        negated = self.take("^")
        ranges: list[tuple[int, int]] = []
        first = True
        while first or not self.take("]"):
            if self.position >= len(self.text):
                self.fail("a closing ] for the [", start)
            if self.text.startswith("[:", self.position):
                self.refuse("named classes such as [:alpha:]", self.position)
            ranges += self.class_item()
            first = False
        united = _united(ranges)
        return complement(united) if negated else united

    def class_item(self) -> Ranges:
        begin = self.position
        low = self.class_end()
        if isinstance(low, tuple):
            return low
        if self.text.startswith("-", self.position) and self.text[self.position + 1 : self.position + 2] not in (
            "]",
            "",
        ):
            self.position += 1
            high = self.class_end()
            if isinstance(high, tuple) or high < low:
                self.fail("a range that ascends", begin)
            return self.cased(_folded(((low, high),), self.fold))
        return self.cased(_folded(((low, low),), self.fold))

    def class_end(self) -> int | Ranges:
        """Return one end of a range, or the ranges of a shorthand."""
        start, character = self.position, self.text[self.position : self.position + 1]
        self.position += 1
        if character != "\\":
            return ord(character)
        following = self.text[self.position : self.position + 1]
        if following and following.lower() in _CLASSES:
            self.position += 1
            return self.shorthand(following)
        if following == "b":
            self.position += 1
            return 8
        return self.escaped(start)
