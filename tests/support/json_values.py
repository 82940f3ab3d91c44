"""Hypothesis strategies for any JSON value."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
SCALARS: st.SearchStrategy[Any] = (
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
