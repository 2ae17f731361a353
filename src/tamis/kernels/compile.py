"""The decorators of this package, with types.

``@kernel`` may allocate; ``@hot_kernel`` must not, and in return pays nothing for reference counts;
``@inline_kernel`` is a hot kernel that is copied into its callers; ``@atomic_kernel`` is a hot kernel that keeps
Python's lock, for structures that a writer changes in place while others read. All keep the plain function as
``.py_func``, which the tests run beside the compiled one. A function that LLVM must write (an intrinsic)
is declared as a plain Python function and given its compiled form with
:func:`numba.extending.overload`, so that ``.py_func`` still runs without a compiler.

Numba optimises each function with everything it calls, so a chain of nine kernels is optimised nine times over. An
inline kernel, and a hot kernel whose name starts with an underscore, is called by other kernels alone: it is
optimised as a part of those (`_InnerCompiler`). All kernels of a pipeline compile in about half of the CPU time, and
matching takes as long as before, within the noise of the measurement.

What an inner kernel calls is linked by name, also when it comes from the cache. The compiled forms of two functions
must therefore not share a qualified name (tests/unit/kernels/test_symbols.py).
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, TypeAlias, TypeVar, cast

import numba.extending
from llvmlite import binding as llvm
from numba import njit
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.typed_passes import NopythonTypeInference

from tamis.kernels import HOT_KERNEL, KERNEL

__all__ = ["Int", "atomic_kernel", "hot_kernel", "inline_kernel", "intrinsic", "kernel", "overload"]

F = TypeVar("F", bound=Callable[..., Any])

#: An integer of a kernel: int64 when compiled, Python's or NumPy's in the plain form.
Int: TypeAlias = Any

#: Numba's decorators: the decorated functions take types at compile time and values at run time.
intrinsic: Callable[[Callable[..., Any]], Any] = numba.extending.intrinsic
overload: Callable[[Callable[..., Any]], Callable[[Callable[..., Any]], Any]] = numba.extending.overload
_njit: Callable[..., Any] = njit
_register_pass: Any = register_pass
_AnalysisPass: Any = AnalysisPass
_DefaultPassBuilder: Any = DefaultPassBuilder


def _drop_unused(library: Any) -> None:
    """Remove unused functions from a library, above all the wrappers of its callees, without optimising it."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(library._final_module, library._codegen._pass_builder(opt=0))


@_register_pass(mutates_CFG=False, analysis_only=True)
class _LeaveToCallers(AnalysisPass):
    """Give a function a library that is not optimised by itself, only with the kernels it is linked into."""

    _name = "tamis_leave_to_callers"

    def __init__(self) -> None:
        _AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
        library.enable_object_caching()
        library._optimize_final_module = MethodType(_drop_unused, library)
        state.library = library
        return False


class _InnerCompiler(CompilerBase):
    """The compiler of kernels that other kernels alone call."""

    def define_pipelines(self) -> list[Any]:
        passes = _DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_LeaveToCallers, NopythonTypeInference)
        passes.finalize()
        return [passes]


def kernel(function: F) -> F:
    """Compile ``function`` at its first call; it releases the GIL and may allocate arrays."""
    return cast("F", _njit(**KERNEL)(function))


def hot_kernel(function: F) -> F:
    """Compile ``function`` at its first call; it releases the GIL and must not allocate."""
    inner = {"pipeline_class": _InnerCompiler} if function.__name__.startswith("_") else {}
    return cast("F", _njit(**HOT_KERNEL, **inner)(function))


def inline_kernel(function: F) -> F:
    """As :func:`hot_kernel`, copied into its callers: a call that passes arrays costs 5 to 10 ns otherwise."""
    return cast("F", _njit(**HOT_KERNEL, forceinline=True, pipeline_class=_InnerCompiler)(function))


def atomic_kernel(function: F) -> F:
    """As :func:`hot_kernel`, but with Python's lock held: no other thread sees a partial change. Keep it short."""
    return cast("F", _njit(**{**HOT_KERNEL, "nogil": False})(function))
