"""Sixteen boxes at a time: which of them fit an event.

A *block* is sixteen boxes. The blocks of a tree hold, for each column, one 64-byte line of int16 codes,
``lo[16] hi[16]``: :func:`fit_block` tests all columns of all sixteen boxes and returns two 16-bit masks: the lanes that
fit, and those that fit only by a tie (event and bound have the same code, so float64 must decide). The blocks of a
pair grid hold four uint8 codes per box and side: :func:`fit_corners`.

Every function here is plain Python first (that is what ``.py_func`` of a kernel runs) and gets its
compiled form below it.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils

from tamis.kernels.compile import Int, inline_kernel, intrinsic, overload
from tamis.kernels.emit import lowest_bit, uint8_at
from tamis.kernels.vector_ir import (
    HAS_PERMUTE,
    I8,
    I16,
    I32,
    I64,
    LANES,
    allocate,
    array_at,
    insert_function,
    load,
    splat,
)

__all__ = ["CodedEvent", "fit_block", "fit_corners", "fit_event", "fit_quads"]


class CodedEvent(Protocol):
    """The codes of an event or a question, as :func:`fit_event` reads them."""

    @property
    def low_codes(self) -> npt.NDArray[np.int16]:
        """int16[columns]; the least codes."""

    @property
    def high_codes(self) -> npt.NDArray[np.int16]:
        """int16[columns]; the greatest codes."""


def _mask(flags: npt.NDArray[np.bool_]) -> Int:
    return int(np.packbits(flags, bitorder="little").view(np.uint16)[0])


def fit_block(address: Int, columns: Int, low: npt.NDArray[np.int16], high: npt.NDArray[np.int16]) -> Int:
    """Compare an event with the first ``columns`` lines ``lo[16] hi[16]`` of a block of int16 codes.

    The event's codes in column ``k`` are ``[low[k], high[k]]``. Bits 0-15: the lane may fit, that is
    ``lo <= high and hi >= low`` in every column. Bits 16-31: it fits, but by a tie somewhere. The
    differences stay inside int16 for all codes of :mod:`tamis.kernels.boxes.quantise`.
    """
    lines = array_at(address, 2 * LANES * int(columns), np.int16).reshape(-1, 2, LANES).astype(np.int64)
    above = high[:columns, None].astype(np.int64) - lines[:, 0]
    below = lines[:, 1] - low[:columns, None].astype(np.int64)
    margin = np.minimum(above, below).min(axis=0, initial=32767)
    return _mask(margin >= 0) | _mask(margin == 0) << 16


def _least(builder: Any, first: Any, second: Any) -> Any:
    return builder.select(builder.icmp_signed("<", first, second), first, second)


@intrinsic
def _fit_block(_context: Any, address: Any, columns: Any, low: Any, high: Any) -> Any:
    """Keep the least margin of all columns in one vector; turn it into masks once, at the end."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(I16, LANES)
        codes = [context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (2, 3)]
        margin = allocate(builder, kind)
        builder.store(ir.Constant(kind, [32767] * LANES), margin)
        with cgutils.for_range(builder, arguments[1]) as loop:
            line = builder.add(arguments[0], builder.mul(loop.index, I64(4 * LANES)))
            low_code, high_code = (splat(builder, builder.load(builder.gep(c, [loop.index])), kind) for c in codes)
            above = builder.sub(high_code, load(builder, line, 0, kind))
            below = builder.sub(load(builder, line, 2 * LANES, kind), low_code)
            builder.store(_least(builder, builder.load(margin), _least(builder, above, below)), margin)
        least_margin, zero = builder.load(margin), ir.Constant(kind, [0] * LANES)
        fits = builder.bitcast(builder.icmp_signed(">=", least_margin, zero), I16)
        ties = builder.bitcast(builder.icmp_signed("==", least_margin, zero), I16)
        return builder.or_(builder.zext(fits, I64), builder.shl(builder.zext(ties, I64), I64(16)))

    return types.int64(types.int64, types.int64, low, high), generate


@overload(fit_block)
def _fit_block_compiled(address: Int, columns: Int, low: Any, high: Any) -> Any:
    def compiled(address: Int, columns: Int, low: Any, high: Any) -> Any:
        return _fit_block(np.int64(address), np.int64(columns), low, high)

    return compiled


@inline_kernel
def fit_event(address: Int, columns: Int, event: CodedEvent) -> Int:
    """Return the masks of :func:`fit_block` for any number of columns, eight at a time."""
    if columns <= 8:
        return fit_block(address, columns, event.low_codes, event.high_codes)
    mask = np.int64(0xFFFF)
    ties = np.int64(0)
    for k in range(0, columns, 8):
        fits = fit_block(address + 64 * k, min(8, columns - k), event.low_codes[k:], event.high_codes[k:])
        mask &= fits
        ties |= fits
        if mask == 0:
            return mask
    return mask | (ties & 0xFFFF0000)


# ---- four bytes per box and side


def fit_quads(lines: Int, low: Int, high: Int, care: Int, strict: Int) -> Int:
    """Compare an event with sixteen boxes of four uint8 codes each; return the mask of those that fit.

    ``lines`` is the address of uint8[2, 16, 4], the lower and the upper sides. The event's least and greatest codes,
    and which of the four count (255 or 0), are the bytes of three uint32. ``strict`` 0: a tie fits; 1: it does not, and
    lanes that do not even fit otherwise may be in the mask, too.
    """
    sides = array_at(lines, 8 * LANES, np.uint8).reshape(2, LANES, 4)
    least, greatest, counts = np.array([low, high, care], np.uint32).view(np.uint8).reshape(3, 4)
    fits = (sides[0] + np.uint8(strict) <= greatest) & (sides[1] - np.uint8(strict) >= least)
    return _mask((fits | (counts == 0)).all(axis=1))


def fit_corners(lines: Int, axes: Int, low: tuple[Int, Int], high: tuple[Int, Int], strict: Int) -> Int:
    """As :func:`fit_quads`, but bytes 0 and 1 of each box belong to axes that the box names.

    ``axes`` is the address of uint8[16, 2]: the positions of these axes in the event's tables. ``low`` and ``high`` are
    the address of such a table, uint8[64], and the event's codes for bytes 2 and 3, in bits 16-31.
    """
    sides = array_at(lines, 8 * LANES, np.uint8).reshape(2, LANES, 4)[:, :, :2]
    places = array_at(axes, 2 * LANES, np.uint8).reshape(LANES, 2)
    least, greatest = (array_at(table, 64, np.uint8)[places] for table, _ in (low, high))
    fits = (sides[0] + np.uint8(strict) <= greatest) & (sides[1] - np.uint8(strict) >= least)
    return fit_quads(lines, low[1], high[1], 0xFFFF0000, strict) & _mask(fits.all(axis=1))


_CODES: Final = ir.VectorType(I8, 4 * LANES)
_QUADS: Final = ir.VectorType(I32, LANES)


def _is_over(builder: Any, lines: Any, low: Any, high: Any, strict: Any) -> Any:
    """Return 16 uint32: a byte is not zero where an event, uint8[64] twice, misses the side of a box."""
    saturating_subtract = insert_function(
        builder.module, ir.FunctionType(_CODES, [_CODES, _CODES]), "llvm.usub.sat.v64i8"
    )
    offset = splat(builder, strict, _CODES)
    lower = builder.add(load(builder, lines, 0, _CODES), offset)
    upper = builder.sub(load(builder, lines, 4 * LANES, _CODES), offset)
    return builder.bitcast(
        builder.or_(builder.call(saturating_subtract, [lower, high]), builder.call(saturating_subtract, [low, upper])),
        _QUADS,
    )


def _is_zero(builder: Any, quads: Any) -> Any:
    """Return the mask of the lanes that are zero."""
    zero = builder.icmp_signed("==", quads, ir.Constant(_QUADS, [0] * LANES))
    return builder.zext(builder.bitcast(zero, I16), I64)


@intrinsic
def _fit_quads(_context: Any, lines: Any, low: Any, high: Any, care: Any, strict: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        low, high = (builder.bitcast(splat(builder, arguments[i], _QUADS), _CODES) for i in (1, 2))
        over = _is_over(builder, arguments[0], low, high, arguments[4])
        return _is_zero(builder, builder.and_(over, splat(builder, arguments[3], _QUADS)))

    return types.int64(*[types.int64] * 5), generate


@intrinsic
def _fit_corners(_context: Any, lines: Any, axes: Any, low: Any, high: Any, strict: Any) -> Any:
    """Sixteen boxes look their 32 codes up in the event's table with one instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_CODES, [_CODES, _CODES])
        permute = insert_function(builder.module, kind, "llvm.x86.avx512.permvar.qi.512")
        places = load(builder, arguments[1], 0, ir.VectorType(I16, LANES))
        places = builder.bitcast(builder.zext(places, _QUADS), _CODES)
        event = []
        for side in arguments[2:4]:
            table = load(builder, builder.extract_value(side, 0), 0, _CODES)
            lane_codes = builder.bitcast(builder.call(permute, [table, places]), _QUADS)
            lane_codes = builder.and_(lane_codes, ir.Constant(_QUADS, [0xFFFF] * LANES))
            codes = builder.or_(lane_codes, splat(builder, builder.extract_value(side, 1), _QUADS))
            event.append(builder.bitcast(codes, _CODES))
        return _is_zero(builder, _is_over(builder, arguments[0], event[0], event[1], arguments[4]))

    return types.int64(types.int64, types.int64, low, high, types.int64), generate


@overload(fit_quads)
def _fit_quads_compiled(lines: Int, low: Int, high: Int, care: Int, strict: Int) -> Any:
    def compiled(lines: Int, low: Int, high: Int, care: Int, strict: Int) -> Any:
        return _fit_quads(np.int64(lines), np.int64(low), np.int64(high), np.int64(care), np.int64(strict))

    return compiled


@overload(fit_corners)
def _fit_corners_compiled(lines: Int, axes: Int, low: Any, high: Any, strict: Int) -> Any:
    def permute(lines: Int, axes: Int, low: Any, high: Any, strict: Int) -> Any:
        return _fit_corners(np.int64(lines), np.int64(axes), low, high, np.int64(strict))

    def loop(lines: Int, axes: Int, low: Any, high: Any, strict: Int) -> Any:
        mask = np.int64(fit_quads(lines, low[1], high[1], 0xFFFF0000, strict))
        remaining = mask
        while remaining != 0:
            lane = np.int64(lowest_bit(remaining))
            remaining &= remaining - 1
            for j in range(2):
                position = np.int64(uint8_at(axes, 2 * lane + j))
                above = np.int64(uint8_at(lines, 4 * lane + j)) + strict > np.int64(uint8_at(high[0], position))
                below = np.int64(uint8_at(lines, 64 + 4 * lane + j)) - strict < np.int64(uint8_at(low[0], position))
                if above or below:
                    mask &= ~(np.int64(1) << lane)
                    break
        return mask

    return permute if HAS_PERMUTE else loop
