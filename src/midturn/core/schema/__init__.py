"""JSON Schemas that a model or a server writes: a closed subset, checked before any validator sees it."""

from midturn.core.schema.answer_schema import answer_schema, inquiry_schema
from midturn.core.schema.subset import check_schema
from midturn.core.schema.validation import validate

__all__ = ["answer_schema", "check_schema", "inquiry_schema", "validate"]
