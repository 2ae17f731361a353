"""The CR-tree: an R-tree over the regions of constraints, with lists of the constraints that distant regions satisfy.

Every node has the bounding box (MBR) of the regions below it and a list of the constraints below it that allow
*disjoint*. A search with the MBR of an event's region goes down where boxes intersect; where they do not, the whole
list is reported as matched, and nothing below is looked at. At a leaf, a constraint is evaluated only if the relation
of the two MBRs is among those that Table 2 of the paper gives for its operator.

Nodes never change: adding or removing makes new nodes along one path and then a new root, so readers need no
lock. A node's list is put together from those of its children when it is first asked for, and kept.

Implements: [crtree] section 4.1, the CR-tree, and Table 2; insertion, deletion and the quadratic split of Guttman's
R-tree (`tamis.geometry.split`).
Deviation: Table 2 loses matches. *covered-by* needs MBR relation *inside* too, and *covers* needs *contains*: the
triangle (2,2), (3,2.5), (2.5,3) touches an edge of the diamond (0,4), (4,0), (8,4), (4,8) from inside, its MBR does
not touch the diamond's.
Deviation: at inner nodes MBRs that only touch do intersect (the paper says "overlaps"); otherwise *meets* would be
lost and *disjoint* reported wrongly.
Deviation: a leaf holds several constraints, and a constraint has a set of relations; the rows of Table 2 are united.
Deviation: what the boxes leave open is decided by the exact relation, not by sampling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from tamis.errors import InvariantError
from tamis.geometry.relations import relation_of
from tamis.geometry.split import quadratic_split
from tamis.index.protocols import Guarantee
from tamis.model.shapes import RegionValue
from tamis.model.subscription import Constraint, Relation, Spatial
from tamis.model.values import Value

if TYPE_CHECKING:
    from tamis.index.counting.constraint_index import Wanted

__all__ = ["TABLE_2", "CRTree", "box_relation"]

#: Children of a node: at most, and at least unless it is the root.
_MOST, _LEAST = 12, 4

_D, _M, _O, _E = Relation.DISJOINT, Relation.MEETS, Relation.OVERLAPS, Relation.EQUALS
_I, _CT, _CV, _CB = Relation.INSIDE, Relation.CONTAINS, Relation.COVERS, Relation.COVERED_BY

#: For each relation of two regions, the relations of their MBRs that allow it. Table 2, corrected in the last two rows.
TABLE_2: Final[dict[Relation, frozenset[Relation]]] = {
    _D: frozenset({_D, _M, _O, _I, _CB, _CT, _CV}),
    _M: frozenset({_M, _O, _E, _I, _CB, _CT, _CV}),
    _O: frozenset({_O, _E, _I, _CB, _CT, _CV}),
    _I: frozenset({_I}),
    _CT: frozenset({_CT}),
    _E: frozenset({_E}),
    _CB: frozenset({_CB, _E, _I}),
    _CV: frozenset({_CV, _E, _CT}),
}

#: min x, min y, max x, max y.
_Bounds = tuple[float, float, float, float]


@lru_cache(maxsize=256)
def _boxes_for(relations: frozenset[Relation]) -> frozenset[Relation]:
    """Return the relations of MBRs under which a constraint with these relations has to be evaluated."""
    return frozenset().union(*(TABLE_2[relation] for relation in relations))


def box_relation(a: _Bounds, b: _Bounds) -> Relation:
    """Return the relation of two rectangles, of which the first may be a point.

    >>> box_relation((0, 0, 1, 1), (1, 0, 2, 1)), box_relation((1, 1, 1, 1), (0, 0, 2, 2))
    (<Relation.MEETS: 'meets'>, <Relation.INSIDE: 'inside'>)
    """
    if a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]:
        return _D
    if a == b:
        return _E
    if a[0] >= b[0] and a[1] >= b[1] and a[2] <= b[2] and a[3] <= b[3]:
        return _I if a[0] > b[0] and a[1] > b[1] and a[2] < b[2] and a[3] < b[3] else _CB
    if a[0] <= b[0] and a[1] <= b[1] and a[2] >= b[2] and a[3] >= b[3]:
        return _CT if a[0] < b[0] and a[1] < b[1] and a[2] > b[2] and a[3] > b[3] else _CV
    if a[2] == b[0] or b[2] == a[0] or a[3] == b[1] or b[3] == a[1]:
        return _M
    return _O


class _Entry(NamedTuple):
    """A constraint under its number."""

    number: int
    bounds: _Bounds
    constraint: Spatial
    #: The relations of MBRs under which it is evaluated.
    evaluated_at: frozenset[Relation]

    @property
    def disjoint(self) -> tuple[int, ...]:
        """Its number, if far away regions satisfy it."""
        return (self.number,) if _D in self.constraint.relations else ()


class _Node:
    """Entries (height 0) or nodes, all one level lower; never changed."""

    def __init__(self, children: Sequence[_Node | _Entry], height: int) -> None:
        self.children = tuple(children)
        self.height = height
        self.bounds: _Bounds = _hull([child.bounds for child in children])

    @cached_property
    def disjoint(self) -> tuple[int, ...]:
        """The constraints below that allow disjoint."""
        return tuple(number for child in self.children for number in child.disjoint)


class CRTree:
    """The constraints on one attribute of regions; plugs into the counting matcher.

    Guarantee: EXACT. Cost: a relation for each constraint near the event's region, and nothing but its number for
    each one far away. When not to use it: the packed matcher answers tables of events many times as fast.

    Examples
    --------
    >>> import shapely
    >>> tree = CRTree()
    >>> tree.add(7, Spatial("area", frozenset({Relation.INSIDE}), shapely.box(0, 0, 9, 9)))
    >>> tree.add(8, Spatial("area", frozenset({Relation.DISJOINT}), shapely.box(50, 50, 60, 60)))
    >>> sorted(tree.satisfied(shapely.box(1, 1, 2, 2))), tree.evaluations
    ([7, 8], 1)
    """

    guarantee = Guarantee.EXACT

    def __init__(self) -> None:
        #: None if the tree is empty.
        self._root: _Node | None = None
        self._n = 0
        self.evaluations = 0

    def __len__(self) -> int:
        return self._n

    def add(self, number: int, constraint: Constraint) -> None:
        """Add a constraint under a number that was never used."""
        self._root = _with(self._root, _entry(number, constraint))
        self._n += 1

    def remove(self, number: int, constraint: Constraint) -> None:
        """Remove an existing constraint; raise `KeyError` if it is absent."""
        orphans: list[_Entry] = []
        root = self._root
        left = None if root is None else _without(root, _entry(number, constraint), orphans)
        if root is None or left is root:
            raise KeyError(f"no constraint {number}")
        while left is not None and left.height and len(left.children) == 1:
            left = cast("_Node", left.children[0])
        for orphan in orphans:
            left = _with(left, orphan)
        self._root = left
        self._n -= 1

    def satisfied(self, value: Value | None, wanted: Wanted | None = None) -> Iterator[int]:
        """Yield the numbers of the wanted constraints that a region or point satisfies."""
        root = self._root
        if value is None or root is None:
            return
        region = cast("RegionValue", value)
        bounds: _Bounds = region.bounds
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if box_relation(bounds, node.bounds) is _D:
                yield from (number for number in node.disjoint if wanted is None or wanted(number))
            elif node.height:
                waiting.extend(cast("tuple[_Node, ...]", node.children))
            else:
                yield from self._satisfied_in(node, region, bounds, wanted)

    def _satisfied_in(self, leaf: _Node, region: RegionValue, bounds: _Bounds, wanted: Wanted | None) -> Iterator[int]:
        for entry in cast("tuple[_Entry, ...]", leaf.children):
            boxes = box_relation(bounds, entry.bounds)
            if boxes not in entry.evaluated_at or not (wanted is None or wanted(entry.number)):
                continue
            if boxes is _D:
                yield entry.number
                continue
            self.evaluations += 1
            if relation_of(region, entry.constraint.region) in entry.constraint.relations:
                yield entry.number

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless boxes are hulls, lists are complete, and nodes have their size and height."""
        n_entries = 0
        waiting = [] if self._root is None else [self._root]
        while waiting:
            node = waiting.pop()
            if len(node.children) > _MOST or (node is not self._root and len(node.children) < _LEAST):
                raise InvariantError(f"a node with {len(node.children)} children")
            if node.bounds != _hull([child.bounds for child in node.children]):
                raise InvariantError(f"a node's box is {node.bounds}")
            if sorted(node.disjoint) != sorted(number for child in node.children for number in child.disjoint):
                raise InvariantError("a node's list of disjoint constraints is not that of its children")
            if node.height == 0:
                n_entries += len(node.children)
                continue
            for child in cast("tuple[_Node, ...]", node.children):
                if child.height != node.height - 1:
                    raise InvariantError(f"height {child.height} below height {node.height}")
                waiting.append(child)
        if n_entries != self._n:
            raise InvariantError(f"{n_entries} constraints below the root, {self._n} added")


def _entry(number: int, constraint: Constraint) -> _Entry:
    spatial = cast("Spatial", constraint)
    return _Entry(number, spatial.region.bounds, spatial, _boxes_for(spatial.relations))


def _hull(boxes: Sequence[_Bounds]) -> _Bounds:
    min_x, min_y, max_x, max_y = zip(*boxes, strict=True)
    return min(min_x), min(min_y), max(max_x), max(max_y)


def _with(root: _Node | None, entry: _Entry) -> _Node:
    """Return the root of the tree with one more entry."""
    if root is None:
        return _Node([entry], 0)
    parts = _grown(root, entry)
    return parts[0] if len(parts) == 1 else _Node(parts, root.height + 1)


def _grown(node: _Node, entry: _Entry) -> list[_Node]:
    """Return the node with one more entry, or the two nodes into which it was split."""
    children: list[_Node | _Entry] = list(node.children)
    if node.height == 0:
        children.append(entry)
    else:
        position = _choose_subtree(cast("Sequence[_Node]", children), entry.bounds)
        children[position : position + 1] = _grown(cast("_Node", children[position]), entry)
    if len(children) <= _MOST:
        return [_Node(children, node.height)]
    bounds = np.array([child.bounds for child in children])
    groups = quadratic_split(bounds[:, :2], bounds[:, 2:], _LEAST)
    return [_Node([children[i] for i in group], node.height) for group in groups]


def _choose_subtree(children: Sequence[_Node], bounds: _Bounds) -> int:
    """Return the child that grows least, the smaller of equal ones."""

    def cost(position: int) -> tuple[float, ...]:
        own = children[position].bounds
        hull = _hull([own, bounds])
        return _area(hull) - _area(own), _margin(hull) - _margin(own), _area(own)

    return min(range(len(children)), key=cost)


def _area(box: _Bounds) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _margin(box: _Bounds) -> float:
    return box[2] - box[0] + box[3] - box[1]


def _without(node: _Node, entry: _Entry, orphans: list[_Entry]) -> _Node | None:
    """Return a node without an entry; the same node if the entry is absent, None if nothing is left.

    A child that became too small is dissolved; its entries are ``orphans``, to be added again.
    """
    for position, child in enumerate(node.children):
        if isinstance(child, _Entry):
            if child.number != entry.number:
                continue
            left: _Node | None = None
        else:
            if box_relation(entry.bounds, child.bounds) is _D:
                continue
            left = _without(child, entry, orphans)
            if left is child:
                continue
            if left is not None and len(left.children) < _LEAST:
                orphans += _entries(left)
                left = None
        rest = [*node.children[:position], *([] if left is None else [left]), *node.children[position + 1 :]]
        return _Node(rest, node.height) if rest else None
    return node


def _entries(node: _Node) -> list[_Entry]:
    if node.height == 0:
        return list(cast("tuple[_Entry, ...]", node.children))
    return [entry for child in cast("tuple[_Node, ...]", node.children) for entry in _entries(child)]
