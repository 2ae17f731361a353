"""The decorators of this package, with types.

``@kernel`` may allocate; ``@hot_kernel`` must not, and in return pays nothing for reference counts;
``@inline_kernel`` is a hot kernel that is copied into its callers; ``@atomic_kernel`` is a hot kernel that keeps
Python's lock, for structures that a writer changes in place while others read. All keep the plain function as
``.py_func``, which the tests run beside the compiled one. A function that LLVM must write (an intrinsic)
is declared as a plain Python function and given its compiled form with
:func:`numba.extending.overload`, so that ``.py_func`` still runs without a compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numba.extending
from numba import njit

from tamis.kernels import HOT_KERNEL, KERNEL

__all__ = ["Int", "atomic_kernel", "hot_kernel", "inline_kernel", "intrinsic", "kernel", "overload"]

F = TypeVar("F", bound=Callable[..., Any])

#: An integer of a kernel: int64 when compiled, Python's or NumPy's in the plain form.
Int: TypeAlias = Any

#: Numba's own: what they decorate takes types at compile time and values at run time.
intrinsic: Callable[[Callable[..., Any]], Any] = numba.extending.intrinsic
overload: Callable[[Callable[..., Any]], Callable[[Callable[..., Any]], Any]] = numba.extending.overload
_njit: Callable[..., Any] = njit


def kernel(function: F) -> F:
    """Compile ``function`` at its first call; it releases the GIL and may allocate arrays."""
    return cast("F", _njit(**KERNEL)(function))


def hot_kernel(function: F) -> F:
    """Compile ``function`` at its first call; it releases the GIL and must not allocate."""
    return cast("F", _njit(**HOT_KERNEL)(function))


def inline_kernel(function: F) -> F:
    """As :func:`hot_kernel`, copied into its callers: a call that passes arrays costs 5 to 10 ns otherwise."""
    return cast("F", _njit(**HOT_KERNEL, forceinline=True)(function))


def atomic_kernel(function: F) -> F:
    """As :func:`hot_kernel`, but with Python's lock held: no other thread sees a half-made change. Keep it short."""
    return cast("F", _njit(**{**HOT_KERNEL, "nogil": False})(function))
