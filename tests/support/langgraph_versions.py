"""Skip marks for features that older supported versions of LangGraph and LangChain lack."""

from __future__ import annotations

import inspect

import pytest
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.types import interrupt

with_schemas = pytest.mark.skipif(
    "response_schema" not in inspect.signature(interrupt).parameters,
    reason="this LangGraph has no `interrupt(…, response_schema=…)`",
)
with_one_interrupt_per_call = pytest.mark.skipif(
    "interrupt_mode" not in inspect.signature(HumanInTheLoopMiddleware).parameters,
    reason="this LangChain has no `interrupt_mode`",
)
