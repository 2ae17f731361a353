"""The calculus of the eight relations: which relations of x and B are possible if "x r A" and "A q B" hold.

The table gives for every pair (r, q) the relations of x to B that are possible. It is that of the region connection
calculus RCC-8, has 64 cells and admits 193 triples. It holds for regions and, a point having fewer relations, for
points as x. For simple polygons in the plane every entry is realised for every pair A, B (erratum S.3.4), so
conflicts and covers of two conditions read off it are exact, not only safe.

From it follow, for conditions with *sets* of relations:

* (R1, A) and (R2, B) conflict iff R2 misses the union of compose(r, q) over r in R1, where A q B;
* (R1, A) covers (R2, B) iff the union of compose(r, inverse of q) over r in R2 lies in R1.

Implements: [crtree] section 4.2, covers and conflicts between spatial constraints.
Deviation: the section's example, (x covered-by A) conflicts with (x disjoint B) if A overlaps B, is wrong: A =
[0,4]^2, B = [3,6]^2, x = [0,1]^2. What is true nearby is that (x *covers* A) conflicts with it. A filter removed by
the printed rule would lose events.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tamis.model.subscription import Relation

__all__ = ["COMPOSITION", "INVERSE", "compose", "sets_conflict"]

#: The paper's letters.
_LETTERS: Final = dict(zip(("D", "M", "O", "E", "I", "Ct", "Cv", "cB"), Relation, strict=True))

#: The relation of b to a when that of a to b is known.
INVERSE: Final = {relation: relation for relation in Relation} | {
    Relation.INSIDE: Relation.CONTAINS,
    Relation.CONTAINS: Relation.INSIDE,
    Relation.COVERS: Relation.COVERED_BY,
    Relation.COVERED_BY: Relation.COVERS,
}

#: Rows: x r A. Columns: A q B. Cells: the relations of x to B that are possible; a star stands for all.
_TABLE: Final = """
      D            | M             | O            | E  | I              | Ct           | Cv            | cB
D     *            | D M O I cB    | D M O I cB   | D  | D M O I cB     | D            | D             | D M O I cB
M     D M O Ct Cv  | D M O E Cv cB | D M O I cB   | M  | O I cB         | D            | D M           | M O I cB
O     D M O Ct Cv  | D M O Ct Cv   | *            | O  | O I cB         | D M O Ct Cv  | D M O Ct Cv   | O I cB
E     D            | M             | O            | E  | I              | Ct           | Cv            | cB
I     D            | D             | D M O I cB   | I  | I              | *            | D M O I cB    | I
Ct    D M O Ct Cv  | O Ct Cv       | O Ct Cv      | Ct | O E I Ct Cv cB | Ct           | Ct            | O Ct Cv
Cv    D M O Ct Cv  | M O Ct Cv     | O Ct Cv      | Cv | O I cB         | Ct           | Ct Cv         | O E Cv cB
cB    D            | D M           | D M O I cB   | cB | I              | D M O Ct Cv  | D M O E Cv cB | I cB
"""


def _read(table: str) -> dict[tuple[Relation, Relation], frozenset[Relation]]:
    head, *lines = table.strip().splitlines()
    columns = [_LETTERS[cell.strip()] for cell in head.split("|")]
    composition = {}
    for line in lines:
        letters, rest = line.split(maxsplit=1)
        for column, cell in zip(columns, rest.split("|"), strict=True):
            relations = Relation if cell.strip() == "*" else (_LETTERS[letter] for letter in cell.split())
            composition[_LETTERS[letters], column] = frozenset(relations)
    return composition


#: ``{(r, q): possible relations}``: x r A and A q B leave these for x and B.
COMPOSITION: Final = _read(_TABLE)


@lru_cache(maxsize=4096)
def compose(some: frozenset[Relation], q: Relation) -> frozenset[Relation]:
    """Return the relations of x to B that are possible when x has one of some relations to A, and A q B.

    >>> sorted(compose(frozenset({Relation.INSIDE}), Relation.MEETS))
    [<Relation.DISJOINT: 'disjoint'>]
    """
    return frozenset().union(*(COMPOSITION[relation, q] for relation in some))


def sets_conflict(r1: frozenset[Relation], q: Relation, r2: frozenset[Relation]) -> bool:
    """Whether no x satisfies both (r1, A) and (r2, B), where A q B.

    >>> sets_conflict(frozenset({Relation.INSIDE}), Relation.DISJOINT, frozenset({Relation.MEETS}))
    True
    """
    return not compose(r1, q) & r2
