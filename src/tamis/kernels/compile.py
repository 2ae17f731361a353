"""The decorators of this package, with types.

``@kernel`` may allocate; ``@hot_kernel`` must not, and in return pays nothing for reference counts.
Both keep the plain function as ``.py_func``, which the tests run beside the compiled one. A function
that LLVM must write (an intrinsic) is declared as a plain Python function and given its compiled form
with :func:`numba.extending.overload`, so that ``.py_func`` still runs without a compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

from tamis.kernels import HOT_KERNEL, KERNEL

__all__ = ["hot_kernel", "kernel"]

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile ``function`` at its first call; it releases the GIL and may allocate arrays."""
    return cast("F", njit(**KERNEL)(function))


def hot_kernel(function: F) -> F:
    """Compile ``function`` at its first call; it releases the GIL and must not allocate."""
    return cast("F", njit(**HOT_KERNEL)(function))
