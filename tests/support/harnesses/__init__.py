"""Scripted agents in each framework that has an adapter, for the conformance suite."""

from __future__ import annotations

from importlib import import_module

from midturn.testing.adapters.program import AdapterHarness

FRAMEWORKS = {
    "langgraph": "langgraph.Harness",
    "langgraph-sqlite": "langgraph.SqliteHarness",
    "openai-agents": "openai_agents.Harness",
    "pydantic-ai": "pydantic_ai.Harness",
}
"""Module of the harness, by framework."""


def harness_of(framework: str) -> AdapterHarness:
    """Load and return the harness of a framework."""
    module, _, name = FRAMEWORKS[framework].partition(".")
    made: AdapterHarness = getattr(import_module(f"support.harnesses.{module}"), name)()
    return made
