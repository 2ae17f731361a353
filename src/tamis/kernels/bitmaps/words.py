"""A row of a bitmap is 512 bits: combine the rows of an event, and compare one box with an event on all its columns.

Plain Numba loops over the eight words of a row are not vectorised, and take three times as long. Vectors here are
generic, so LLVM picks the registers of the machine: one of AVX-512, two of AVX2, four of SSE or NEON.

Every function here is plain Python first (that is what ``.py_func`` of a kernel runs) and gets its compiled form below
it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from tamis.kernels.compile import Int, inline_kernel, intrinsic, overload
from tamis.kernels.vector_ir import I8, I16, I32, I64, allocate, array_at, load

__all__ = ["N_ROWS", "N_WORDS", "ROW_BYTES", "TABLE_BYTES", "VECTOR", "and_rows", "fit_box"]

#: Words of a row, one bit per box of a leaf.
N_WORDS: Final = 8
ROW_BYTES: Final = 8 * N_WORDS
#: Rows of a table: one per bucket of values, and the last for events without a value.
N_ROWS: Final = 32
TABLE_BYTES: Final = N_ROWS * ROW_BYTES
#: Codes that are compared at a time. Room for as many follows the last code of boxes and events.
VECTOR: Final = 32


def and_rows(tables: Int, buckets: Int, columns: Int, n: Int, out: Int) -> Int:
    """Write the AND of one row of each of ``n`` tables to ``out``, int64[N_WORDS]; return the mask of words not 0.

    Row ``buckets[columns[k]]`` of table ``k`` counts; both are uint8. All are given by their addresses.
    """
    rows = array_at(tables, n * N_ROWS * N_WORDS, np.int64).reshape(-1, N_ROWS, N_WORDS)
    chosen = [int(array_at(int(buckets) + int(column), 1, np.uint8)[0]) for column in array_at(columns, n, np.uint8)]
    words = array_at(out, N_WORDS, np.int64)
    words[:] = -1
    for table, row in zip(rows, chosen, strict=True):
        words &= table[row]
    return int(np.packbits(words != 0, bitorder="little")[0])


_ROW: Final = ir.VectorType(I64, N_WORDS)


@intrinsic
def _and_rows(_context: Any, tables: Any, buckets: Any, columns: Any, n: Any, out: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        tables, buckets, columns, n, out = arguments
        intersection = allocate(builder, _ROW)
        builder.store(ir.Constant(_ROW, [-1] * N_WORDS), intersection)
        with cgutils.for_range(builder, n) as loop:
            column = _byte_at(builder, columns, loop.index)
            row = builder.mul(_byte_at(builder, buckets, column), I64(ROW_BYTES))
            table = builder.add(tables, builder.mul(loop.index, I64(TABLE_BYTES)))
            builder.store(
                builder.and_(builder.load(intersection), load(builder, builder.add(table, row), 0, _ROW)), intersection
            )
        words = builder.load(intersection)
        builder.store(words, builder.inttoptr(out, _ROW.as_pointer())).align = 8
        nonzero = builder.icmp_signed("!=", words, ir.Constant(_ROW, [0] * N_WORDS))
        return builder.zext(builder.bitcast(nonzero, I8), I64)

    return types.int64(*[types.int64] * 5), generate


def _byte_at(builder: Any, address: Any, index: Any) -> Any:
    """Read a uint8 as an int64."""
    return builder.zext(builder.load(builder.inttoptr(builder.add(address, index), I8.as_pointer())), I64)


@overload(and_rows)
def _and_rows_compiled(tables: Int, buckets: Int, columns: Int, n: Int, out: Int) -> Any:
    def compiled(tables: Int, buckets: Int, columns: Int, n: Int, out: Int) -> Any:
        return _and_rows(np.int64(tables), np.int64(buckets), np.int64(columns), np.int64(n), np.int64(out))

    return compiled


def fit_codes(lower: Int, upper: Int, low: Int, high: Int, n: Int) -> Int:
    """Compare ``n`` codes of a box and of an event, at most `VECTOR`: int16 arrays given by their addresses.

    Bits 0-31: the box misses the event, that is ``lower > high or upper < low``. Bits 32-63: a tie.
    """
    below, above, least, greatest = (array_at(address, n, np.int16) for address in (lower, upper, low, high))
    misses, ties = (below > greatest) | (above < least), (below == greatest) | (above == least)
    bits = 0
    for k in range(int(n)):
        bits |= int(misses[k]) << k | int(ties[k]) << 32 + k
    return int(np.uint64(bits).view(np.int64))


_CODES: Final = ir.VectorType(I16, VECTOR)


@intrinsic
def _fit_codes(_context: Any, lower: Any, upper: Any, low: Any, high: Any, n: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        below, above, least, greatest = (load(builder, address, 0, _CODES) for address in arguments[:4])
        misses = builder.or_(builder.icmp_signed(">", below, greatest), builder.icmp_signed("<", above, least))
        ties = builder.or_(builder.icmp_signed("==", below, greatest), builder.icmp_signed("==", above, least))
        lanes = builder.sub(builder.shl(I64(1), arguments[4]), I64(1))
        missed, tied = (builder.zext(builder.bitcast(flags, I32), I64) for flags in (misses, ties))
        tied = builder.shl(builder.and_(tied, lanes), I64(32))
        return builder.or_(builder.and_(missed, lanes), tied)

    return types.int64(*[types.int64] * 5), generate


@overload(fit_codes)
def _fit_codes_compiled(lower: Int, upper: Int, low: Int, high: Int, n: Int) -> Any:
    def compiled(lower: Int, upper: Int, low: Int, high: Int, n: Int) -> Any:
        return _fit_codes(np.int64(lower), np.int64(upper), np.int64(low), np.int64(high), np.int64(n))

    return compiled


@inline_kernel
def fit_box(box: Int, low: Int, high: Int, columns: Int) -> Int:
    """Compare a box, int16[2, columns] of lower and upper codes, with an event; 0: it fits for sure.

    Otherwise as :func:`fit_codes`: it misses where a bit below 32 is set, and float64 must decide where none is.
    """
    bits = np.int64(0)
    for k in range(0, columns, VECTOR):
        n = min(columns - k, VECTOR)
        bits |= fit_codes(box + 2 * k, box + 2 * (columns + k), low + 2 * k, high + 2 * k, n)
    return bits
