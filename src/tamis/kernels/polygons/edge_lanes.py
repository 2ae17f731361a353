"""Eight edges at a time: which cross a ray, turn around a point, come near a box, or cross another edge.

A ring of a dozen vertices costs a dozen branches that no processor can predict; eight edges side by side in vectors
cost none. The results are bits, one per edge, and of two kinds: *sure* ones, which float64 proves by its error bound,
and *unsure* ones, which the caller decides by exact arithmetic (`tamis.kernels.polygons.flat_rings.side`).

Each formula below is written once, on numbers that may be compared and multiplied: the plain Python form gives it
NumPy arrays of eight, the compiled form `_Lanes`, which write LLVM code for the same operations. Every processor has
that code; where it has no vectors of eight LLVM takes smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types

from tamis.kernels.compile import Int, intrinsic, overload
from tamis.kernels.polygons.ring import RELATIVE_ERROR, UNDERFLOW
from tamis.kernels.vector_ir import I1, I8, I16, I32, I64, insert_function

__all__ = ["EDGES", "SLACK", "UNSURE", "crossing_edges", "edges_around", "edges_near_box", "edges_on_ray"]

#: Edges of one call.
EDGES: Final = 8
#: Offset of the unsure bits above the sure ones.
UNSURE: Final = EDGES
#: A generous bound of what a few rounded operations may be off, relative to the sum of their terms.
SLACK: Final = 1e-14

_XY = npt.NDArray[np.float64]
#: The edges as four numbers per lane, where each starts and where it ends; then what the caller gives.
_Formula = Callable[..., tuple[Any, Any]]


# ---- the formulas


def _sides(a_x: Any, a_y: Any, b_x: Any, b_y: Any) -> tuple[Any, Any]:
    """Return whether the origin is surely left of the way from a to b, and surely right of it."""
    left, right = a_x * b_y, a_y * b_x
    error = (abs(left) + abs(right)) * RELATIVE_ERROR + UNDERFLOW
    return left - right > error, right - left > error


def _on_ray(x0: Any, y0: Any, x1: Any, y1: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Edges that cross the ray from (x, y) to the right; unsure: the point may lie on one."""
    x0, y0, x1, y1 = x0 - x, y0 - y, x1 - x, y1 - y
    left, right = _sides(x0, y0, x1, y1)
    below0, below1 = y0 <= 0.0, y1 <= 0.0
    upward = y1 > y0
    crosses = (below0 ^ below1) & ((left & upward) | (right & ~upward))
    level = (below0 | below1) & ((y0 >= 0.0) | (y1 >= 0.0))
    return crosses, level & ~(left | right)


def _around(x0: Any, y0: Any, x1: Any, y1: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Edges that surely have the point on their left, and on their right."""
    return _sides(x0 - x, y0 - y, x1 - x, y1 - y)


def _near_box(x0: Any, y0: Any, x1: Any, y1: Any, x: Any, y: Any, half_x: Any, half_y: Any) -> tuple[Any, Any]:
    """Edges that may meet the box of the given middle and half sides; never unsure, wrong only in saying yes."""
    x0, y0, x1, y1 = x0 - x, y0 - y, x1 - x, y1 - y
    left, right = x0 * y1, y0 * x1
    reach = abs(x1 - x0) * half_y + abs(y1 - y0) * half_x
    far = abs(left - right) > reach + (reach + abs(left) + abs(right)) * SLACK + UNDERFLOW
    far = far | ((x0 > half_x) & (x1 > half_x)) | ((y0 > half_y) & (y1 > half_y))
    far = far | ((half_x + x0 < 0.0) & (half_x + x1 < 0.0)) | ((half_y + y0 < 0.0) & (half_y + y1 < 0.0))
    return ~far, None


def _crossing(x0: Any, y0: Any, x1: Any, y1: Any, px: Any, py: Any, qx: Any, qy: Any) -> tuple[Any, Any]:
    """Edges that cross the edge from p to q properly; unsure: they may touch it."""
    px0, py0, qx0, qy0 = px - x0, py - y0, qx - x0, qy - y0
    px1, py1, qx1, qy1 = px - x1, py - y1, qx - x1, qy - y1
    left0, right0 = _sides(px0, py0, qx0, qy0)
    left1, right1 = _sides(px1, py1, qx1, qy1)
    left_p, right_p = _sides(px0, py0, px1, py1)
    left_q, right_q = _sides(qx0, qy0, qx1, qy1)
    apart = (left0 & left1) | (right0 & right1) | (left_p & left_q) | (right_p & right_q)
    apart = apart | _all_above(px0, px1, qx0, qx1) | _all_above(py0, py1, qy0, qy1)
    crosses = ((left0 & right1) | (right0 & left1)) & ((left_p & right_q) | (right_p & left_q))
    return crosses, ~(crosses | apart)


def _all_above(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Whether four differences have one sign: the two edges lie beside each other on that axis."""
    return ((a > 0.0) & (b > 0.0) & (c > 0.0) & (d > 0.0)) | ((a < 0.0) & (b < 0.0) & (c < 0.0) & (d < 0.0))


# ---- the plain form and the compiled one


class _Lanes:
    """A vector of an LLVM function under construction, with Python's operators."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    def _with(self, name: str, other: Any) -> _Lanes:
        return _Lanes(self.builder, getattr(self.builder, name)(self.value, self._same(other)))

    def _same(self, other: Any) -> Any:
        if isinstance(other, _Lanes):
            return other.value
        return ir.Constant(self.value.type, [float(other)] * EDGES)

    def _compared(self, sign: str, other: Any) -> _Lanes:
        return _Lanes(self.builder, self.builder.fcmp_ordered(sign, self.value, self._same(other)))

    def __add__(self, other: Any) -> _Lanes:
        return self._with("fadd", other)

    def __sub__(self, other: Any) -> _Lanes:
        return self._with("fsub", other)

    def __mul__(self, other: Any) -> _Lanes:
        return self._with("fmul", other)

    def __abs__(self) -> _Lanes:
        kind = self.value.type
        function = insert_function(self.builder.module, ir.FunctionType(kind, [kind]), "llvm.fabs.v8f64")
        return _Lanes(self.builder, self.builder.call(function, [self.value]))

    def __gt__(self, other: Any) -> _Lanes:
        return self._compared(">", other)

    def __lt__(self, other: Any) -> _Lanes:
        return self._compared("<", other)

    def __ge__(self, other: Any) -> _Lanes:
        return self._compared(">=", other)

    def __le__(self, other: Any) -> _Lanes:
        return self._compared("<=", other)

    def __and__(self, other: Any) -> _Lanes:
        return self._with("and_", other)

    def __or__(self, other: Any) -> _Lanes:
        return self._with("or_", other)

    def __xor__(self, other: Any) -> _Lanes:
        return self._with("xor", other)

    def __invert__(self) -> _Lanes:
        return _Lanes(self.builder, self.builder.not_(self.value))


def _load_edges(builder: Any, pointer: Any, n: Any) -> list[_Lanes]:
    """Load where n edges start and end, x and y apart; lanes beyond the last are 0, and nothing there is read."""
    kind, flags = ir.VectorType(ir.DoubleType(), 2 * EDGES), ir.VectorType(I1, 2 * EDGES)
    mask = builder.trunc(builder.sub(builder.shl(I64(1), builder.shl(n, I64(1))), I64(1)), I16)
    signature = ir.FunctionType(kind, [kind.as_pointer(), I32, flags, kind])
    masked_load = insert_function(builder.module, signature, "llvm.masked.load.v16f64.p0")
    lanes_of_edges = []
    for first in (0, 2):
        at = builder.bitcast(builder.gep(pointer, [I64(first)]), kind.as_pointer())
        zeros = ir.Constant(kind, [0.0] * (2 * EDGES))
        rows = builder.call(masked_load, [at, I32(8), builder.bitcast(mask, flags), zeros])
        for axis in (0, 1):
            lanes = ir.Constant(ir.VectorType(I32, EDGES), [2 * lane + axis for lane in range(EDGES)])
            lanes_of_edges.append(_Lanes(builder, builder.shuffle_vector(rows, zeros, lanes)))
    return lanes_of_edges


def _bits(builder: Any, flags: _Lanes, n: Any) -> Any:
    """Return the flags of the first n lanes as an integer."""
    mask = builder.sub(builder.shl(I64(1), n), I64(1))
    return builder.and_(builder.zext(builder.bitcast(flags.value, I8), I64), mask)


def _lanes_of(builder: Any, number: Any) -> _Lanes:
    kind = ir.VectorType(ir.DoubleType(), EDGES)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), number, I32(0))
    everywhere = ir.Constant(ir.VectorType(I32, EDGES), [0] * EDGES)
    return _Lanes(builder, builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), everywhere))


def _generate(formula: _Formula, context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Write the code of a formula on the n edges from row ``first`` of an array."""
    xy, first, n, *scalars = arguments
    rows = context.make_array(signature.args[0])(context, builder, xy)
    pointer = builder.gep(rows.data, [builder.shl(first, I64(1))])
    numbers = [_lanes_of(builder, scalar) for scalar in scalars]
    sure, unsure = formula(*_load_edges(builder, pointer, n), *numbers)
    bits = _bits(builder, sure, n)
    if unsure is None:
        return bits
    return builder.or_(bits, builder.shl(_bits(builder, unsure, n), I64(UNSURE)))


def _plain(formula: _Formula, xy: _XY, first: Int, n: Int, *scalars: float) -> int:
    """Compute the compiled form's result with NumPy."""
    rows = xy[first : first + n + 1]
    with np.errstate(over="ignore", invalid="ignore"):
        sure, unsure = formula(rows[:-1, 0], rows[:-1, 1], rows[1:, 0], rows[1:, 1], *scalars)
    bits = sum(1 << k for k in np.flatnonzero(sure).tolist())
    return bits if unsure is None else bits | sum(1 << (UNSURE + k) for k in np.flatnonzero(unsure).tolist())


def _signature(xy: Any, n_given: int) -> Any:
    """Return the types of a compiled form that takes ``n_given`` numbers besides the edges."""
    return types.int64(xy, types.int64, types.int64, *[types.float64] * n_given)


def edges_on_ray(xy: _XY, first: Int, n: Int, x: float, y: float) -> Int:
    """Return which of n edges, up to `EDGES`, from row ``first`` on cross the ray from (x, y) to the right, half-open.

    Bit k is edge k. Bit `UNSURE` + k: the point may lie on edge k, or float64 cannot tell its side.

    >>> square = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0], [0.0, 0.0]])
    >>> edges_on_ray(square, 0, 4, 1.0, 1.0), edges_on_ray(square, 0, 4, 4.0, 1.0) >> UNSURE
    (2, 2)
    """
    return _plain(_on_ray, xy, first, n, x, y)


def edges_around(xy: _XY, first: Int, n: Int, x: float, y: float) -> Int:
    """Return which of n edges surely have (x, y) on their left; bit `UNSURE` + k: edge k surely has it on its right.

    >>> square = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0], [0.0, 0.0]])
    >>> f"{edges_around(square, 0, 4, 5.0, 1.0):b}"
    '1000001101'
    """
    return _plain(_around, xy, first, n, x, y)


def edges_near_box(xy: _XY, first: Int, n: Int, x: float, y: float, half_x: float, half_y: float) -> Int:
    """Return which of n edges may meet a box, given by its middle and half its sides; others surely do not.

    >>> square = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0], [0.0, 0.0]])
    >>> edges_near_box(square, 0, 4, 1.0, 3.0, 0.5, 1.0)
    4
    """
    return _plain(_near_box, xy, first, n, x, y, half_x, half_y)


def crossing_edges(xy: _XY, first: Int, n: Int, px: float, py: float, qx: float, qy: float) -> Int:
    """Return which of n edges cross the edge from p to q properly; bit `UNSURE` + k: edge k may touch it.

    >>> square = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0], [0.0, 0.0]])
    >>> crossing_edges(square, 0, 4, 1.0, 1.0, 9.0, 1.0)
    2
    """
    return _plain(_crossing, xy, first, n, px, py, qx, qy)


@intrinsic
def _ray(_context: Any, xy: Any, first: Any, n: Any, x: Any, y: Any) -> Any:
    return _signature(xy, 2), partial(_generate, _on_ray)


@intrinsic
def _turn(_context: Any, xy: Any, first: Any, n: Any, x: Any, y: Any) -> Any:
    return _signature(xy, 2), partial(_generate, _around)


@intrinsic
def _box(_context: Any, xy: Any, first: Any, n: Any, x: Any, y: Any, half_x: Any, half_y: Any) -> Any:
    return _signature(xy, 4), partial(_generate, _near_box)


@intrinsic
def _cross(_context: Any, xy: Any, first: Any, n: Any, px: Any, py: Any, qx: Any, qy: Any) -> Any:
    return _signature(xy, 4), partial(_generate, _crossing)


@overload(edges_on_ray)
def _edges_on_ray(xy: Any, first: Any, n: Any, x: Any, y: Any) -> Any:
    def compiled(xy: Any, first: Any, n: Any, x: Any, y: Any) -> Any:
        return _ray(xy, np.int64(first), np.int64(n), x, y)

    return compiled


@overload(edges_around)
def _edges_around(xy: Any, first: Any, n: Any, x: Any, y: Any) -> Any:
    def compiled(xy: Any, first: Any, n: Any, x: Any, y: Any) -> Any:
        return _turn(xy, np.int64(first), np.int64(n), x, y)

    return compiled


@overload(edges_near_box)
def _edges_near_box(xy: Any, first: Any, n: Any, x: Any, y: Any, half_x: Any, half_y: Any) -> Any:
    def compiled(xy: Any, first: Any, n: Any, x: Any, y: Any, half_x: Any, half_y: Any) -> Any:
        return _box(xy, np.int64(first), np.int64(n), x, y, half_x, half_y)

    return compiled


@overload(crossing_edges)
def _crossing_edges(xy: Any, first: Any, n: Any, px: Any, py: Any, qx: Any, qy: Any) -> Any:
    def compiled(xy: Any, first: Any, n: Any, px: Any, py: Any, qx: Any, qy: Any) -> Any:
        return _cross(xy, np.int64(first), np.int64(n), px, py, qx, qy)

    return compiled
