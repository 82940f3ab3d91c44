"""The Python types that programs write for parameters, answers and results: their JSON Schema, and how JSON becomes a value of them."""

from midturn.core.value_types.mismatch import Mismatch, ValueType
from midturn.core.value_types.plain_type import PlainType, plain_schemas
from midturn.core.value_types.value_type import value_type

__all__ = ["Mismatch", "PlainType", "ValueType", "plain_schemas", "value_type"]
