"""Content-based publish/subscribe: put a million standing questions to a stream of events.

>>> import tamis
>>> engine = tamis.Engine()
>>> engine.subscribe("symbol = 'IBM' AND price < 100", id="alice")
'alice'
>>> engine.match({"symbol": "IBM", "price": 99.5})
['alice']

Every public name is here; each is imported when it is first used, so that ``import tamis`` is quick and
compiles nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tamis.algebra.conflicts import conflicts
    from tamis.algebra.covers import Covering, covers, equivalent
    from tamis.algebra.explain import Explanation
    from tamis.algebra.simplify import simplify
    from tamis.engine import Engine, Matches
    from tamis.engine.covering import CoverIndex, covering_index
    from tamis.errors import (
        ConnectionLostError,
        DuplicateSubscriptionError,
        EventError,
        LimitError,
        ModelError,
        RefusedError,
        SchemaError,
        SnapshotConflictError,
        SnapshotError,
        SubscriptionError,
        SubscriptionSyntaxError,
        TableError,
        TamisError,
        UnknownSubscriptionError,
    )
    from tamis.geometry.relations import relation, relations
    from tamis.model.derived.functions import register_function, unregister_function
    from tamis.model.schema import Schema
    from tamis.model.subscription import Relation, Subscription
    from tamis.model.tables import EventTable, SubscriptionTable
    from tamis.model.types import (
        AttributeType,
        Boolean,
        Date,
        Decimal,
        DiscreteType,
        Form,
        Ip,
        Many,
        Mixed,
        Number,
        Region,
        ScalarType,
        String,
        Timestamp,
        Uuid,
        Vector,
        Version,
        register_type,
    )
    from tamis.model.values import UnfitError
    from tamis.reduction import Reduction, Subsumption, merge, reduce, subsumed
    from tamis.runtime.client.connecting import connect
    from tamis.runtime.client.consuming import consume
    from tamis.runtime.simulation.network import Network
    from tamis.runtime.simulation.peer_network import PeerNetwork

__all__ = [
    "AttributeType",
    "Boolean",
    "ConnectionLostError",
    "CoverIndex",
    "Covering",
    "Date",
    "Decimal",
    "DiscreteType",
    "DuplicateSubscriptionError",
    "Engine",
    "EventError",
    "EventTable",
    "Explanation",
    "Form",
    "Ip",
    "LimitError",
    "Many",
    "Matches",
    "Mixed",
    "ModelError",
    "Network",
    "Number",
    "PeerNetwork",
    "Reduction",
    "RefusedError",
    "Region",
    "Relation",
    "ScalarType",
    "Schema",
    "SchemaError",
    "SnapshotConflictError",
    "SnapshotError",
    "String",
    "Subscription",
    "SubscriptionError",
    "SubscriptionSyntaxError",
    "SubscriptionTable",
    "Subsumption",
    "TableError",
    "TamisError",
    "Timestamp",
    "UnfitError",
    "UnknownSubscriptionError",
    "Uuid",
    "Vector",
    "Version",
    "__version__",
    "conflicts",
    "connect",
    "consume",
    "covering_index",
    "covers",
    "equivalent",
    "merge",
    "reduce",
    "register_function",
    "register_type",
    "relation",
    "relations",
    "simplify",
    "subsumed",
    "unregister_function",
]

__version__ = "0.2.0"

#: Where each public name lives.
_HOMES = {
    "tamis.algebra.conflicts": ["conflicts"],
    "tamis.algebra.covers": ["Covering", "covers", "equivalent"],
    "tamis.algebra.explain": ["Explanation"],
    "tamis.algebra.simplify": ["simplify"],
    "tamis.engine": ["Engine", "Matches"],
    "tamis.engine.covering": ["CoverIndex", "covering_index"],
    "tamis.errors": [
        "ConnectionLostError",
        "DuplicateSubscriptionError",
        "EventError",
        "LimitError",
        "ModelError",
        "RefusedError",
        "SchemaError",
        "SnapshotConflictError",
        "SnapshotError",
        "SubscriptionError",
        "SubscriptionSyntaxError",
        "TableError",
        "TamisError",
        "UnknownSubscriptionError",
    ],
    "tamis.geometry.relations": ["relation", "relations"],
    "tamis.model.derived.functions": ["register_function", "unregister_function"],
    "tamis.model.schema": ["Schema"],
    "tamis.model.subscription": ["Relation", "Subscription"],
    "tamis.model.tables": ["EventTable", "SubscriptionTable"],
    "tamis.model.types": [
        "AttributeType",
        "Boolean",
        "Date",
        "Decimal",
        "Ip",
        "DiscreteType",
        "Form",
        "Many",
        "Mixed",
        "Number",
        "Region",
        "ScalarType",
        "String",
        "Timestamp",
        "Uuid",
        "Vector",
        "Version",
        "register_type",
    ],
    "tamis.model.values": ["UnfitError"],
    "tamis.reduction": ["Reduction", "Subsumption", "merge", "reduce", "subsumed"],
    "tamis.runtime.client.connecting": ["connect"],
    "tamis.runtime.client.consuming": ["consume"],
    "tamis.runtime.simulation.network": ["Network"],
    "tamis.runtime.simulation.peer_network": ["PeerNetwork"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'tamis' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
