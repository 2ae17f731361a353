"""The composition table against every triple of small regions; conflicts and covers as listed (erratum S.3.4)."""

from __future__ import annotations

import itertools
import re

import numpy as np
import shapely

from tamis.geometry.rcc8 import COMPOSITION, INVERSE, compose, sets_conflict
from tamis.geometry.relations import relation_of
from tamis.model.subscription import Relation
from tests import naive
from tests.region_worlds import cell_regions

LETTERS = dict(zip(["D", "M", "O", "E", "I", "Ct", "Cv", "cB"], Relation, strict=True))

CONFLICTS = """
A D B: Dx[]; Mx[E I cB]; Ox[E I cB]; Ex[M O E I cB Ct Cv]; Ix[M O E I cB Ct Cv]; cBx[M O E I cB Ct Cv]; Ctx[E I cB]; Cvx[E I cB]
A M B: Dx[E Ct Cv]; Mx[I Ct]; Ox[E I cB]; Ex[D O E I cB Ct Cv]; Ix[M O E I cB Ct Cv]; cBx[O E I cB Ct Cv]; Ctx[D M E I cB]; Cvx[D E I cB]
A O B: Dx[E Ct Cv]; Mx[E Ct Cv]; Ox[]; Ex[D M E I cB Ct Cv]; Ix[E Ct Cv]; cBx[E Ct Cv]; Ctx[D M E I cB]; Cvx[D M E I cB]
A E B: Dx[M O E I cB Ct Cv]; Mx[D O E I cB Ct Cv]; Ox[D M E I cB Ct Cv]; Ex[D M O I cB Ct Cv]; Ix[D M O E cB Ct Cv]; cBx[D M O E I Ct Cv]; Ctx[D M O E I cB Cv]; Cvx[D M O E I cB Ct]
A I B: Dx[E Ct Cv]; Mx[D M E Ct Cv]; Ox[D M E Ct Cv]; Ex[D M O E cB Ct Cv]; Ix[D M O E cB Ct Cv]; cBx[D M O E cB Ct Cv]; Ctx[D M]; Cvx[D M E Ct Cv]
A cB B: Dx[E Ct Cv]; Mx[D E Ct Cv]; Ox[D M E Ct Cv]; Ex[D M O E I Ct Cv]; Ix[D M O E cB Ct Cv]; cBx[D M O E Ct Cv]; Ctx[D M E I cB]; Cvx[D M I Ct]
A Ct B: Dx[M O E I cB Ct Cv]; Mx[M O E I cB Ct Cv]; Ox[E I cB]; Ex[D M O E I cB Cv]; Ix[]; cBx[E I cB]; Ctx[D M O E I cB Cv]; Cvx[D M O E I cB Cv]
A Cv B: Dx[M O E I cB Ct Cv]; Mx[O E I cB Ct Cv]; Ox[E I cB]; Ex[D M O E I cB Ct]; Ix[E Ct Cv]; cBx[I Ct]; Ctx[D M O E I cB Cv]; Cvx[D M O E I cB]
"""  # noqa: E501

COVERS = """
A D B: (D A)>=(E B), (D A)>=(I B), (D A)>=(cB B)
A M B: (D A)>=(I B), (M A)>=(E B)
A O B: (O A)>=(E B)
A E B: (D A)>=(D B), (M A)>=(M B), (O A)>=(O B), (E A)>=(E B), (I A)>=(I B), (cB A)>=(cB B), (Ct A)>=(Ct B), (Cv A)>=(Cv B)
A I B: (D A)>=(D B), (D A)>=(M B), (Ct A)>=(E B), (Ct A)>=(Ct B), (Ct A)>=(Cv B)
A cB B: (D A)>=(D B), (Ct A)>=(Ct B), (Cv A)>=(E B)
A Ct B: (I A)>=(E B), (I A)>=(I B), (I A)>=(cB B)
A Cv B: (I A)>=(I B), (cB A)>=(E B)
"""  # noqa: E501

Triple = tuple[Relation, Relation, Relation]


def singleton(relation: Relation) -> frozenset[Relation]:
    return frozenset({relation})


def test_conflicts_are_the_list() -> None:
    want: set[Triple] = set()
    for line in CONFLICTS.strip().splitlines():
        q = LETTERS[line.split()[1]]
        for r1, listed in re.findall(r"(\w+)x\[(.*?)\]", line):
            want |= {(LETTERS[r1], q, LETTERS[r2]) for r2 in listed.split()}
    triples = {
        (r1, q, r2)
        for r1, q, r2 in itertools.product(Relation, repeat=3)
        if sets_conflict(singleton(r1), q, singleton(r2))
    }
    assert triples == want
    assert len(want) == 319


def test_covers_are_the_list() -> None:
    want: set[Triple] = set()
    for line in COVERS.strip().splitlines():
        q = LETTERS[line.split()[1]]
        want |= {(LETTERS[r1], q, LETTERS[r2]) for r1, r2 in re.findall(r"\((\w+) A\)>=\((\w+) B\)", line)}
    triples = {
        (r1, q, r2)
        for r1, q, r2 in itertools.product(Relation, repeat=3)
        if compose(singleton(r2), INVERSE[q]) <= singleton(r1)
    }
    assert triples == want
    assert len(want) == 27


def test_the_table_is_that_of_small_regions() -> None:
    """Every triple of cell regions is in the table, and every entry of the table has a triple."""
    rng = np.random.default_rng(3)
    cells, _ = cell_regions(rng, 500)
    held = naive.grid_relations(cells, cells)
    seen = set()
    for q in range(8):
        a, b = np.nonzero(held == q)
        some = rng.permutation(len(a))[:500]
        for i, j in zip(a[some], b[some], strict=True):
            seen |= {(r1, q, r2) for r1, r2 in np.unique(np.stack([held[:, i], held[:, j]]), axis=1).T.tolist()}
    relations = list(Relation)
    triples = {(relations[r1], relations[q], relations[r2]) for r1, q, r2 in seen}
    table = {(r, q, x) for (r, q), some in COMPOSITION.items() for x in some}
    assert triples <= table
    assert len(table) == 193
    assert len(triples) >= 180, sorted(table - triples)


def test_laws() -> None:
    for r, q in itertools.product(Relation, repeat=2):
        assert {INVERSE[x] for x in COMPOSITION[r, q]} == COMPOSITION[INVERSE[q], INVERSE[r]]
        assert COMPOSITION[r, Relation.EQUALS] == singleton(r) == COMPOSITION[Relation.EQUALS, r]
        assert Relation.EQUALS in COMPOSITION[r, INVERSE[r]]
    assert compose(frozenset(), Relation.MEETS) == frozenset()


def test_the_printed_example_is_not_a_conflict() -> None:
    """Deviation: [crtree] section 4.2 prints covered-by; with covers it is true."""
    a, b, x = shapely.box(0, 0, 4, 4), shapely.box(3, 3, 6, 6), shapely.box(0, 0, 1, 1)
    assert relation_of(a, b) is Relation.OVERLAPS
    assert (relation_of(x, a), relation_of(x, b)) == (Relation.COVERED_BY, Relation.DISJOINT)
    assert not sets_conflict(singleton(Relation.COVERED_BY), Relation.OVERLAPS, singleton(Relation.DISJOINT))
    assert sets_conflict(singleton(Relation.COVERS), Relation.OVERLAPS, singleton(Relation.DISJOINT))


def test_points_obey_the_table_too(rng: np.random.Generator) -> None:
    _, regions = cell_regions(rng, 40)
    places = shapely.points(rng.integers(13, size=(60, 2)) / 2)
    for a, b in itertools.combinations(regions, 2):
        q = relation_of(a, b)
        for x in places[:20]:
            assert relation_of(x, b) in COMPOSITION[relation_of(x, a), q]
