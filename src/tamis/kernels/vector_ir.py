"""Pieces of LLVM code that the lane kernels share: vectors at addresses, one number in all lanes.

Memory is given by its address (int64): a kernel then takes one table of addresses instead of twenty
arrays, writable and read-only (memory-mapped) arrays share one compiled form, and a call costs about one
microsecond. The caller keeps the array alive and checks its length.
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
from numba.extending import lower_builtin, type_callable
from numba.np.arrayobj import make_array, populate_array

from tamis.kernels.compile import Int

__all__ = [
    "HAS_COMPRESS",
    "HAS_PERMUTE",
    "I1",
    "I8",
    "I16",
    "I32",
    "I64",
    "LANES",
    "allocate",
    "array_at",
    "insert_function",
    "load",
    "splat",
]

#: Boxes in a block.
LANES: Final = 16

_FEATURES: Final[dict[str, bool]] = {} if os.environ.get("TAMIS_NO_COMPRESS") else dict(llvm.get_host_cpu_features())
#: Whether the processor packs chosen lanes together, and looks 64 bytes up in a table of 64, in one instruction.
#: ``TAMIS_NO_COMPRESS=1`` forces the loops that stand in for both, for measurements and tests.
HAS_COMPRESS: Final[bool] = _FEATURES.get("avx512f", False)
HAS_PERMUTE: Final[bool] = _FEATURES.get("avx512vbmi", False)

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))

#: Untyped, like all of Numba and llvmlite.
_type_callable: Callable[..., Callable[[Any], Any]] = type_callable
_lower_builtin: Callable[..., Callable[[Any], Any]] = lower_builtin
_make_array: Any = make_array
_populate_array: Any = populate_array
insert_function: Any = cgutils.get_or_insert_function
allocate: Any = cgutils.alloca_once


def array_at(address: Int, count: Int, dtype: Any) -> npt.NDArray[Any]:
    """View ``count`` numbers that start at ``address``, in plain Python and in kernels."""
    size = int(count) * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(int(address)), dtype)


@_type_callable(array_at)
def _array_at_type(_context: Any) -> Any:
    return lambda address, count, dtype: types.Array(dtype.dtype, 1, "C")


@_lower_builtin(array_at, types.Integer, types.Integer, types.Any)
def _array_at_compiled(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Write an array that owns nothing. An overload is refused: kernels without reference counts return no arrays."""
    kind = signature.return_type
    array = _make_array(kind)(context, builder)
    address, count = (
        context.cast(builder, value, kind_of_value, types.int64)
        for value, kind_of_value in zip(arguments[:2], signature.args[:2], strict=True)
    )
    size = context.get_constant(types.intp, np.dtype(str(kind.dtype)).itemsize)
    data = builder.inttoptr(address, array.data.type)
    _populate_array(array, data, [count], [size], size, meminfo=None)
    return array._getvalue()


def splat(builder: Any, value: Any, kind: Any) -> Any:
    """Put one number into all lanes of a vector."""
    empty = ir.Constant(kind, ir.Undefined)
    narrow = builder.trunc(value, kind.element) if value.type.width > kind.element.width else value
    first = builder.insert_element(empty, narrow, I32(0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(I32, kind.count), [0] * kind.count))


def load(builder: Any, address: Any, offset: Int, kind: Any) -> Any:
    """Load one vector from ``address + offset`` bytes; no alignment is assumed beyond the element's."""
    pointer = builder.inttoptr(builder.add(address, I64(offset)), kind.as_pointer())
    vector = builder.load(pointer)
    vector.align = kind.element.width // 8
    return vector
