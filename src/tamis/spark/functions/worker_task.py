"""What every task of a worker carries: the modules that registered functions and types of users."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

from tamis.model.derived.functions import function_modules
from tamis.model.types.registry import type_modules

__all__ = ["WorkerTask"]


def _modules() -> tuple[str, ...]:
    return (*function_modules(), *type_modules())


@dataclass(frozen=True)
class WorkerTask:
    """The modules that registered functions and types on the driver when the task was made.

    It travels pickled inside Spark, and a worker that receives it imports them.
    """

    modules: tuple[str, ...] = field(default_factory=_modules, kw_only=True)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Import the modules, which registers their functions and types in this process."""
        self.__dict__.update(state)
        for module in self.modules:
            importlib.import_module(module)
