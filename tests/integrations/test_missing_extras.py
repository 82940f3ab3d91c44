"""An adapter whose framework is not installed says which extra it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from midturn.extras import install_command


@pytest.mark.parametrize(
    ("adapter", "extra", "package"),
    [
        ("pydantic_ai", "pydantic-ai", "pydantic_ai"),
        ("openai_agents", "openai-agents", "agents"),
        ("langgraph", "langgraph", "langgraph"),
        ("langgraph", "langgraph", "langchain_core"),
    ],
)
def test_a_missing_framework_names_the_extra(adapter: str, extra: str, package: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; import midturn.integrations.{adapter}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1].endswith(
        f"The adapter for {package} needs the extra `{extra}`: {install_command(extra)}"
    )
