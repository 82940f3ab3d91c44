"""JSON Schemas that a model or a server writes: a closed subset, checked before any validator sees it."""

from midturn.core.schema.subset import check_schema
from midturn.core.schema.validation import validate

__all__ = ["check_schema", "validate"]
