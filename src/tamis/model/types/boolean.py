"""True and false."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from tamis.model import values
from tamis.model.language.nodes import Literal
from tamis.model.types.base import Form, ScalarType
from tamis.model.types.column import Column, Mask
from tamis.model.value_set import Cut, ValueSet
from tamis.model.values import Value

__all__ = ["Boolean"]

_TRUTH = r"^(?i:true|false)$"
_CELLS = {"": None, "true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True)
class Boolean(ScalarType):
    """True or false; false comes first."""

    name: ClassVar[str] = "boolean"
    form: ClassVar[Form] = Form.NUMBER
    python_types: ClassVar[tuple[type, ...]] = (bool, np.bool_)
    arrow_type: ClassVar[pa.DataType] = pa.bool_()
    arrow_kinds: ClassVar[frozenset[str] | None] = frozenset({"boolean"})

    @property
    def domain(self) -> tuple[float, float]:
        """False and true as numbers."""
        return 0.0, 1.0

    def canonical(self, value: object) -> bool:
        """Return the boolean; 0 and 1 are refused."""
        return values.boolean(value)

    @classmethod
    def of_arrow(cls, field: pa.Field, kind: pa.DataType, column: Any) -> Self | None:
        """Return the type for Arrow's booleans."""
        return cls() if pat.is_boolean(kind) else None

    @classmethod
    def reads_cells(cls, cells: pa.Array) -> bool:
        """Whether all cells are true or false."""
        return pc.all(pc.match_substring_regex(cells, _TRUTH)).as_py() is not False

    def from_arrow(self, name: str, array: pa.Array, present: Mask) -> Column | None:
        """Return an array of bool."""
        return Column(self, np.asarray(array.fill_null(False)), present) if pat.is_boolean(array.type) else None

    def pack(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return an array of bool."""
        return np.array([bool(value) for value in values], np.bool_)

    def before(self, value: Value) -> Cut | None:
        """Return the only cut there is, the one between false and true."""
        return (True, 0) if value else None

    def after(self, value: Value) -> Cut | None:
        """Return the only cut there is, the one between false and true."""
        return None if value else (True, 0)

    def lower(self, cut: Cut | None) -> tuple[Literal, str]:
        """Return the lower end of an interval, which is false where it is open."""
        return cut is not None, ">="

    def upper(self, cut: Cut | None) -> tuple[Literal, str]:
        """Return the upper end of an interval, which is true where it is open."""
        return cut is None, "<="

    def from_cell(self, text: str) -> object:
        """Return true or false, None for an empty cell, the text itself for anything else."""
        return _CELLS.get(text.strip().lower(), text)

    def from_cells(self, texts: pa.Array) -> list[object]:
        """Return the values of all cells."""
        return [None if text is None else self.from_cell(text) for text in texts.to_pylist()]

    def samples(self, allowed: ValueSet) -> Iterator[bool]:
        """Yield both."""
        yield from (True, False)
