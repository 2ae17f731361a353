"""Sixteen lanes at a time: test a block of boxes, write the rows that passed.

A *block* is sixteen boxes; for each axis it holds one 64-byte line of int16 codes, ``lo[16] hi[16]``.
:func:`fit_block` asks all axes of all sixteen boxes and answers with two 16-bit masks: who fits,
and who fits only by a tie (event and bound have the same code, so float64 must decide).
:func:`emit_lanes` writes the rows of the lanes that are set, packed together, with the compress
instruction of AVX-512 into a register and one full store: the form that compresses straight into
memory (LLVM's masked compress-store) took 22 ns per block on a Zen 4, this one 1.5. Where the
processor lacks the instruction the rows are written by a loop over the set bits.

Memory is given by its address (int64): a kernel then takes one table of addresses instead of twenty
arrays, writable and read-only (memory-mapped) arrays share one compiled form, and a call costs about one
microsecond. Whoever passes an address keeps the array alive and sees to its length.

Every function here is plain Python first (that is what ``.py_func`` of a kernel runs) and gets its
compiled form below it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any, Final

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np.numpy_support import from_dtype

from tamis.kernels.compile import Int, intrinsic, overload

__all__ = [
    "HAS_COMPRESS",
    "LANES",
    "emit_lanes",
    "fit_block",
    "fit_bytes",
    "float64_at",
    "int16_at",
    "int32_at",
    "int64_at",
    "lowest_bit",
    "prefetch",
    "spread_lanes",
    "uint8_at",
    "uint16_at",
    "uint32_at",
]

#: Boxes in a block. A line of a block is 16 low codes and 16 high codes: 64 bytes.
LANES: Final = 16

#: Whether rows are packed by the compress instruction. ``TAMIS_NO_COMPRESS=1`` forces the
#: loop, for measurements and tests on a processor that has the instruction.
HAS_COMPRESS: Final[bool] = bool(
    llvm.get_host_cpu_features().get("avx512f", False) and not os.environ.get("TAMIS_NO_COMPRESS")
)

#: Untyped, like all of llvmlite.
_insert_function: Any = cgutils.get_or_insert_function
_allocate: Any = cgutils.alloca_once

_I1, _I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))


# ---- numbers at addresses


def _array_at(address: Int, count: Int, dtype: Any) -> npt.NDArray[Any]:
    """View ``count`` numbers that start at ``address``; only the plain Python forms need it."""
    size = int(count) * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(int(address)), dtype)


def _make_reader(dtype: type[np.generic], width: Any) -> Callable[[Int, Int], Any]:
    """Write the function ``read(address, index)`` for one dtype, plain and compiled."""
    size = np.dtype(dtype).itemsize

    def read(address: Int, index: Int) -> Any:
        return _array_at(int(address) + int(index) * size, 1, dtype)[0]

    @intrinsic
    def _read(_context: Any, address: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            start = builder.inttoptr(arguments[0], width.as_pointer())
            return builder.load(builder.gep(start, [arguments[1]]))

        return from_dtype(np.dtype(dtype))(types.int64, types.int64), generate

    @overload(read)
    def _compiled(address: Int, index: Int) -> Any:
        def compiled(address: Int, index: Int) -> Any:
            return _read(np.int64(address), np.int64(index))

        return compiled

    read.__doc__ = f"Read number ``index`` of the {dtype.__name__} numbers that start at ``address``."
    return read


uint8_at = _make_reader(np.uint8, ir.IntType(8))
int16_at = _make_reader(np.int16, ir.IntType(16))
uint16_at = _make_reader(np.uint16, ir.IntType(16))
int32_at = _make_reader(np.int32, ir.IntType(32))
uint32_at = _make_reader(np.uint32, ir.IntType(32))
int64_at = _make_reader(np.int64, ir.IntType(64))
float64_at = _make_reader(np.float64, ir.DoubleType())


# ---- bits and caches


def lowest_bit(mask: Int) -> Int:
    """Number the lowest set bit of a mask that is not zero.

    >>> lowest_bit(0b101000)
    3
    """
    return (int(mask) & -int(mask)).bit_length() - 1


@intrinsic
def _lowest_bit(_context: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], _I1(1))

    return types.int64(types.int64), generate


@overload(lowest_bit)
def _lowest_bit_compiled(mask: Int) -> Any:
    def compiled(mask: Int) -> Any:
        return _lowest_bit(np.int64(mask))

    return compiled


def prefetch(address: Int) -> None:
    """Ask the processor to bring the cache line at ``address`` near; no effect on any answer."""


@intrinsic
def _prefetch(_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
        function = _insert_function(builder.module, kind, "llvm.prefetch.p0")
        place = builder.inttoptr(arguments[0], _I8.as_pointer())
        builder.call(function, [place, _I32(0), _I32(3), _I32(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@overload(prefetch)
def _prefetch_compiled(address: Int) -> Any:
    def compiled(address: Int) -> Any:
        return _prefetch(np.int64(address))

    return compiled


# ---- tests of sixteen boxes


def _mask(flags: npt.NDArray[np.bool_]) -> Int:
    return int(np.packbits(flags, bitorder="little").view(np.uint16)[0])


def fit_block(address: Int, columns: Int, low: npt.NDArray[np.int16], high: npt.NDArray[np.int16]) -> Int:
    """Compare an event with the first ``columns`` lines ``lo[16] hi[16]`` of a block of int16 codes.

    The event's codes in column ``k`` are ``[low[k], high[k]]``. Bits 0-15: the lane may fit, that is
    ``lo <= high and hi >= low`` in every column. Bits 16-31: it fits, but by a tie somewhere. The
    differences stay inside int16 for all codes of :mod:`tamis.kernels.quantise`.
    """
    lines = _array_at(address, 2 * LANES * int(columns), np.int16).reshape(-1, 2, LANES).astype(np.int64)
    above = high[:columns, None].astype(np.int64) - lines[:, 0]
    below = lines[:, 1] - low[:columns, None].astype(np.int64)
    margin = np.minimum(above, below).min(axis=0, initial=32767)
    return _mask(margin >= 0) | _mask(margin == 0) << 16


def fit_bytes(address: Int, low: Int, high: Int) -> Int:
    """As :func:`fit_block` for one half line of uint8 codes; only the first mask, ties count as fit."""
    line = _array_at(address, 2 * LANES, np.uint8).astype(np.int64)
    return _mask((line[:LANES] <= high) & (line[LANES:] >= low))


def _splat(builder: Any, value: Any, kind: Any) -> Any:
    """Put one number into all lanes of a vector."""
    empty = ir.Constant(kind, ir.Undefined)
    narrow = builder.trunc(value, kind.element) if value.type.width > kind.element.width else value
    first = builder.insert_element(empty, narrow, _I32(0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(_I32, kind.count), [0] * kind.count))


def _load(builder: Any, address: Any, offset: Int, kind: Any) -> Any:
    """Load one vector from ``address + offset`` bytes; no alignment is assumed beyond the element's."""
    place = builder.inttoptr(builder.add(address, _I64(offset)), kind.as_pointer())
    vector = builder.load(place)
    vector.align = kind.element.width // 8
    return vector


def _least(builder: Any, first: Any, second: Any) -> Any:
    return builder.select(builder.icmp_signed("<", first, second), first, second)


@intrinsic
def _fit_block(_context: Any, address: Any, columns: Any, low: Any, high: Any) -> Any:
    """Keep the least margin of all columns in one vector; turn it into masks once, at the end."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(_I16, LANES)
        codes = [context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (2, 3)]
        margin = _allocate(builder, kind)
        builder.store(ir.Constant(kind, [32767] * LANES), margin)
        with cgutils.for_range(builder, arguments[1]) as loop:
            line = builder.add(arguments[0], builder.mul(loop.index, _I64(4 * LANES)))
            low_code, high_code = (_splat(builder, builder.load(builder.gep(c, [loop.index])), kind) for c in codes)
            above = builder.sub(high_code, _load(builder, line, 0, kind))
            below = builder.sub(_load(builder, line, 2 * LANES, kind), low_code)
            builder.store(_least(builder, builder.load(margin), _least(builder, above, below)), margin)
        found, zero = builder.load(margin), ir.Constant(kind, [0] * LANES)
        fits = builder.bitcast(builder.icmp_signed(">=", found, zero), _I16)
        ties = builder.bitcast(builder.icmp_signed("==", found, zero), _I16)
        return builder.or_(builder.zext(fits, _I64), builder.shl(builder.zext(ties, _I64), _I64(16)))

    return types.int64(types.int64, types.int64, low, high), generate


@intrinsic
def _fit_bytes(_context: Any, address: Any, low: Any, high: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(_I8, LANES)
        lo, hi = (_load(builder, arguments[0], offset, kind) for offset in (0, LANES))
        under = builder.icmp_unsigned("<=", lo, _splat(builder, arguments[2], kind))
        over = builder.icmp_unsigned(">=", hi, _splat(builder, arguments[1], kind))
        return builder.zext(builder.bitcast(builder.and_(under, over), _I16), _I64)

    return types.int64(types.int64, types.int64, types.int64), generate


@overload(fit_block)
def _fit_block_compiled(address: Int, columns: Int, low: Any, high: Any) -> Any:
    def compiled(address: Int, columns: Int, low: Any, high: Any) -> Any:
        return _fit_block(np.int64(address), np.int64(columns), low, high)

    return compiled


@overload(fit_bytes)
def _fit_bytes_compiled(address: Int, low: Int, high: Int) -> Any:
    def compiled(address: Int, low: Int, high: Int) -> Any:
        return _fit_bytes(np.int64(address), np.int64(low), np.int64(high))

    return compiled


# ---- writing rows


def emit_lanes(address: Int, mask: Int, out: npt.NDArray[np.int32], at: Int) -> Int:
    """Write the int32 numbers at ``address`` whose mask bit is set to ``out[at:]``; return how many.

    ``out`` needs room for sixteen numbers after ``at`` whatever the mask.
    """
    chosen = _array_at(address, LANES, np.int32)[[bit for bit in range(LANES) if int(mask) >> bit & 1]]
    out[at : at + chosen.size] = chosen
    return int(chosen.size)


@intrinsic
def _compress_lanes(_context: Any, address: Any, mask: Any, out: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, flags = ir.VectorType(_I32, LANES), ir.VectorType(_I1, LANES)
        rows = _load(builder, arguments[0], 0, kind)
        array = context.make_array(signature.args[2])(context, builder, arguments[2])
        place = builder.bitcast(builder.gep(array.data, [arguments[3]]), kind.as_pointer())
        compress = _insert_function(
            builder.module, ir.FunctionType(kind, [kind, kind, flags]), "llvm.x86.avx512.mask.compress.v16i32"
        )
        chosen = builder.bitcast(builder.trunc(arguments[1], _I16), flags)
        packed = builder.call(compress, [rows, ir.Constant(kind, [0] * LANES), chosen])
        builder.store(packed, place).align = 4
        return builder.ctpop(arguments[1])

    return types.int64(types.int64, types.int64, out, types.int64), generate


@overload(emit_lanes)
def _emit_lanes_compiled(address: Int, mask: Int, out: Any, at: Int) -> Any:
    def compress(address: Int, mask: Int, out: Any, at: Int) -> Any:
        return _compress_lanes(np.int64(address), np.int64(mask), out, np.int64(at))

    def loop(address: Int, mask: Int, out: Any, at: Int) -> Any:
        left = np.int64(mask)
        count = 0
        while left != 0:
            out[at + count] = int32_at(address, lowest_bit(left))
            left &= left - 1
            count += 1
        return count

    return compress if HAS_COMPRESS else loop


def spread_lanes(value: Int, out: npt.NDArray[np.int32], at: Int) -> None:
    """Write one number to ``out[at : at + 16]``."""
    out[at : at + LANES] = value


@intrinsic
def _spread_lanes(_context: Any, value: Any, out: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(_I32, LANES)
        array = context.make_array(signature.args[1])(context, builder, arguments[1])
        place = builder.bitcast(builder.gep(array.data, [arguments[2]]), kind.as_pointer())
        builder.store(_splat(builder, arguments[0], kind), place).align = 4
        return context.get_dummy_value()

    return types.void(types.int64, out, types.int64), generate


@overload(spread_lanes)
def _spread_lanes_compiled(value: Int, out: Any, at: Int) -> Any:
    def compiled(value: Int, out: Any, at: Int) -> Any:
        return _spread_lanes(np.int64(value), out, np.int64(at))

    return compiled
