"""Which kernels a process has loaded, for tests that demand that none is loaded later."""

from __future__ import annotations

import sys

__all__ = ["loaded_kernels"]


def loaded_kernels() -> set[str]:
    """Return every kernel that is loaded, with its argument types."""
    from numba.core.registry import CPUDispatcher

    return {
        f"{kernel.py_func.__module__}.{kernel.py_func.__name__}{types}"
        for name, module in list(sys.modules.items())
        if name.startswith("tamis.")
        for kernel in vars(module).values()
        if isinstance(kernel, CPUDispatcher)
        for types in kernel.overloads
    }
