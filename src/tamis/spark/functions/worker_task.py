"""What every task of a worker carries: the modules whose functions filters may call."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field

from tamis.model.derived.functions import function_modules

__all__ = ["WorkerTask"]


@dataclass(frozen=True)
class WorkerTask:
    """The modules that registered functions on the driver when the task was made; it travels pickled inside Spark."""

    functions: tuple[str, ...] = field(default_factory=function_modules, kw_only=True)

    def import_functions(self) -> None:
        """Import the modules, which register their functions in this process."""
        for module in self.functions:
            importlib.import_module(module)
