"""Numbers at addresses, and writing the rows of the lanes that passed.

:func:`emit_lanes` writes the rows of the lanes that are set, packed together, with the compress
instruction of AVX-512 into a register and one full store: the form that compresses straight into
memory (LLVM's masked compress-store) took 22 ns per block on a Zen 4, this one 1.5. Where the
processor lacks the instruction the rows are written by a loop over the set bits. Into an array of
int64 the lanes themselves are written, one number per block, for :mod:`tamis.kernels.boxes.staged`.

Every function here is plain Python first (that is what ``.py_func`` of a kernel runs) and gets its
compiled form below it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.np.numpy_support import from_dtype

from tamis.kernels.compile import Int, intrinsic, overload
from tamis.kernels.vector_ir import HAS_COMPRESS, I1, I8, I16, I32, LANES, array_at, insert_function, load, splat

__all__ = [
    "count_bits",
    "emit_lane",
    "emit_lanes",
    "float64_at",
    "int16_at",
    "int32_at",
    "int64_at",
    "lowest_bit",
    "prefetch",
    "prefetch_far",
    "prefetch_row",
    "spread_lanes",
    "uint8_at",
    "uint16_at",
    "uint32_at",
]

# ---- numbers at addresses


def _make_reader(dtype: type[np.generic], width: Any) -> Callable[[Int, Int], Any]:
    """Write the function ``read(address, index)`` for one dtype, plain and compiled."""
    size = np.dtype(dtype).itemsize

    def read(address: Int, index: Int) -> Any:
        return array_at(int(address) + int(index) * size, 1, dtype)[0]

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

        compiled.__qualname__ = f"{read.__qualname__}_compiled"
        return compiled

    # A name of its own for each: in the cache, which processes share, nothing else tells the compiled forms apart.
    read.__qualname__ = f"{dtype.__name__}_at"
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
        return builder.cttz(arguments[0], I1(1))

    return types.int64(types.int64), generate


@overload(lowest_bit)
def _lowest_bit_compiled(mask: Int) -> Any:
    def compiled(mask: Int) -> Any:
        return _lowest_bit(np.int64(mask))

    return compiled


def count_bits(mask: Int) -> Int:
    """Count the set bits of a mask.

    >>> count_bits(0b101000)
    2
    """
    return int(mask).bit_count()


@intrinsic
def _count_bits(_context: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate


@overload(count_bits)
def _count_bits_compiled(mask: Int) -> Any:
    def compiled(mask: Int) -> Any:
        return _count_bits(np.int64(mask))

    return compiled


def prefetch(address: Int) -> None:
    """Ask the processor to bring the cache line at ``address`` near; no effect on any answer."""


def _call_prefetch(builder: Any, pointer: Any, nearness: int) -> None:
    """Write the call that asks for a line; ``nearness`` 3: into the nearest cache, 2: into the second."""
    kind = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
    builder.call(insert_function(builder.module, kind, "llvm.prefetch.p0"), [pointer, I32(0), I32(nearness), I32(1)])


@intrinsic
def _prefetch(_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _call_prefetch(builder, builder.inttoptr(arguments[0], I8.as_pointer()), 3)
        return context.get_dummy_value()

    return types.void(types.int64), generate


@overload(prefetch)
def _prefetch_compiled(address: Int) -> Any:
    def compiled(address: Int) -> Any:
        return _prefetch(np.int64(address))

    return compiled


def prefetch_far(address: Int) -> None:
    """As :func:`prefetch`, into the second cache: for more lines than the first one holds."""


@intrinsic
def _prefetch_far(_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _call_prefetch(builder, builder.inttoptr(arguments[0], I8.as_pointer()), 2)
        return context.get_dummy_value()

    return types.void(types.int64), generate


@overload(prefetch_far)
def _prefetch_far_compiled(address: Int) -> Any:
    def compiled(address: Int) -> Any:
        return _prefetch_far(np.int64(address))

    return compiled


def prefetch_row(array: npt.NDArray[Any], row: Int) -> None:
    """Ask, as :func:`prefetch`, for the line in which a row of an array begins."""


@intrinsic
def _prefetch_row(_context: Any, array: Any, row: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = builder.extract_value(rows.strides, 0)
        pointer = builder.gep(builder.bitcast(rows.data, I8.as_pointer()), [builder.mul(arguments[1], stride)])
        _call_prefetch(builder, pointer, 3)
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@overload(prefetch_row)
def _prefetch_row_compiled(array: Any, row: Int) -> Any:
    def compiled(array: Any, row: Int) -> Any:
        return _prefetch_row(array, np.int64(row))

    return compiled


# ---- writing rows


def emit_lanes(address: Int, mask: Int, out: npt.NDArray[Any], at: Int) -> Int:
    """Write the int32 numbers at ``address`` whose mask bit is set to ``out[at:]``; return how many.

    ``out`` needs room for sixteen numbers after ``at`` whatever the mask. An ``out`` of int64 gets one number, the
    address and the mask, if the mask is not 0.
    """
    if out.dtype == np.int64:
        out[at] = int(address) << 16 | int(mask)
        return int(mask != 0)
    chosen = array_at(address, LANES, np.int32)[[bit for bit in range(LANES) if int(mask) >> bit & 1]]
    out[at : at + chosen.size] = chosen
    return int(chosen.size)


@intrinsic
def _compress_lanes(_context: Any, address: Any, mask: Any, out: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, flags = ir.VectorType(I32, LANES), ir.VectorType(I1, LANES)
        rows = load(builder, arguments[0], 0, kind)
        array = context.make_array(signature.args[2])(context, builder, arguments[2])
        pointer = builder.bitcast(builder.gep(array.data, [arguments[3]]), kind.as_pointer())
        compress = insert_function(
            builder.module, ir.FunctionType(kind, [kind, kind, flags]), "llvm.x86.avx512.mask.compress.v16i32"
        )
        chosen = builder.bitcast(builder.trunc(arguments[1], I16), flags)
        packed = builder.call(compress, [rows, ir.Constant(kind, [0] * LANES), chosen])
        builder.store(packed, pointer).align = 4
        return builder.ctpop(arguments[1])

    return types.int64(types.int64, types.int64, out, types.int64), generate


@overload(emit_lanes)
def _emit_lanes_compiled(address: Int, mask: Int, out: Any, at: Int) -> Any:
    def compress(address: Int, mask: Int, out: Any, at: Int) -> Any:
        return _compress_lanes(np.int64(address), np.int64(mask), out, np.int64(at))

    def loop(address: Int, mask: Int, out: Any, at: Int) -> Any:
        remaining = np.int64(mask)
        count = 0
        while remaining != 0:
            out[at + count] = int32_at(address, lowest_bit(remaining))
            remaining &= remaining - 1
            count += 1
        return count

    def stage(address: Int, mask: Int, out: Any, at: Int) -> Any:
        out[at] = np.int64(address) << 16 | np.int64(mask)
        return np.int64(mask != 0)

    if out.dtype == types.int64:
        return stage
    return compress if HAS_COMPRESS else loop


def emit_lane(rows: Int, slot: Int, out: npt.NDArray[Any], at: Int) -> None:
    """Write int32 number ``slot`` at ``rows`` to ``out[at]``, or, as :func:`emit_lanes`, its lane."""
    if out.dtype == np.int64:
        out[at] = (int(rows) + 64 * (int(slot) >> 4)) << 16 | 1 << (int(slot) & 15)
    else:
        out[at] = int32_at(rows, slot)


@overload(emit_lane)
def _emit_lane_compiled(rows: Int, slot: Int, out: Any, at: Int) -> Any:
    def write(rows: Int, slot: Int, out: Any, at: Int) -> Any:
        out[at] = int32_at(rows, slot)

    def stage(rows: Int, slot: Int, out: Any, at: Int) -> Any:
        out[at] = (rows + 64 * (slot >> 4)) << 16 | np.int64(1) << (slot & 15)

    return stage if out.dtype == types.int64 else write


def spread_lanes(value: Int, out: npt.NDArray[np.int32], at: Int) -> None:
    """Write one number to ``out[at : at + 16]``."""
    out[at : at + LANES] = value


@intrinsic
def _spread_lanes(_context: Any, value: Any, out: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(I32, LANES)
        array = context.make_array(signature.args[1])(context, builder, arguments[1])
        pointer = builder.bitcast(builder.gep(array.data, [arguments[2]]), kind.as_pointer())
        builder.store(splat(builder, arguments[0], kind), pointer).align = 4
        return context.get_dummy_value()

    return types.void(types.int64, out, types.int64), generate


@overload(spread_lanes)
def _spread_lanes_compiled(value: Int, out: Any, at: Int) -> Any:
    def compiled(value: Int, out: Any, at: Int) -> Any:
        return _spread_lanes(np.int64(value), out, np.int64(at))

    return compiled
