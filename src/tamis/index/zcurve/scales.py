"""The scales of attributes: from the schema where it has domains, else learned from the ends that are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tamis.index.zcurve.cells import Domain, domain_of, learned_scale
from tamis.kernels.boxes.quantise import ANY_VALUE
from tamis.model.schema import Schema

__all__ = ["Scales"]


class Scales:
    """The scale of each attribute, ``2**k`` cells. Learned ones change when the rows have doubled, and only then.

    A scale never reverses the order of values, so covers are kept whatever was learned; how many points share a cell
    depends on it. Points that were placed by an earlier ``version`` have to be placed again.

    >>> scales = Scales(Schema(), k=2)
    >>> scales.learn({"x": [np.array([1.0, 5.0, 9.0])]}, n_rows=3)
    >>> scales.of("x"), scales.version, scales.is_due(5), scales.is_due(6)
    (LearnedScale(ends=(1.0, 5.0, 9.0)), 1, False, True)
    """

    def __init__(self, schema: Schema, k: int) -> None:
        self._schema, self._k = schema, k
        self._domains: dict[str, Domain] = {}
        self._due = 1
        #: How often scales were learned.
        self.version = 0

    def of(self, attribute: str) -> Domain:
        """Return the scale of an attribute."""
        if attribute not in self._domains:
            self._domains[attribute] = domain_of(self._schema, attribute)
        return self._domains[attribute]

    def is_due(self, n_rows: int) -> bool:
        """Whether the number of rows has grown enough to learn the scales again."""
        return n_rows >= self._due

    def learn(self, ends: Mapping[str, Sequence[npt.NDArray[np.float64]]], n_rows: int) -> None:
        """Learn the scales of attributes without a domain from all ends of ``n_rows`` rows."""
        self._due = 2 * n_rows
        self.version += 1
        for name, values in ends.items():
            domain = domain_of(self._schema, name)
            every = np.concatenate(values)
            bounded = every[np.isfinite(every) & (np.abs(every) < -ANY_VALUE)]
            self._domains[name] = learned_scale(bounded, self._k) if domain is None else domain
