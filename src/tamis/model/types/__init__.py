"""The attribute types, one module each; `registry` lists them, and other code uses them through `base`.

Start with `base.py`: it names everything a type can say about its values (canonical form, order, columns, JSON,
MessagePack, literals, CSV cells, samples). Each type overrides what differs. `registry.py` has one line per type;
`register_type` adds a type of a user's own in the same way. The package may be imported by every layer above `kernels`.
"""

from tamis.model.types.base import AttributeType, DiscreteType, Form, ScalarType
from tamis.model.types.boolean import Boolean
from tamis.model.types.many import Many
from tamis.model.types.number import Number
from tamis.model.types.region import Region
from tamis.model.types.registry import register_type, type_of_value
from tamis.model.types.small.date import Date
from tamis.model.types.small.decimal import Decimal
from tamis.model.types.small.ip import Ip
from tamis.model.types.small.mixed import Mixed
from tamis.model.types.small.uuid import Uuid
from tamis.model.types.small.version import Version
from tamis.model.types.string import String
from tamis.model.types.timestamp import Timestamp
from tamis.model.types.vector import MAX_COORDINATES, Vector

__all__ = [
    "MAX_COORDINATES",
    "AttributeType",
    "Boolean",
    "Date",
    "Decimal",
    "DiscreteType",
    "Form",
    "Ip",
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
    "type_of_value",
]
