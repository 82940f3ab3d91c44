"""Who asks: decided by the code path that ran the tool, by nothing else."""

# Without `from __future__ import annotations`: msgspec reads what stands here, and would compile each annotation from text at every start.

from msgspec import Struct


class Source(Struct, frozen=True, omit_defaults=True):
    """`tool` (with its registered name), `assistant`, `user`, or `other` (with a name); tags of newer versions are kept.

    Args:
        source: The kind: one of these words.
        name: The name, where there is one.
    """

    source: str
    name: str | None = None

    @classmethod
    def tool(cls, name: str) -> "Source":
        """Return the source of every local tool, MCP tool and Python function.

        Args:
            name: The name under which it is registered.
        """
        return cls("tool", name)

    @property
    def header(self) -> str:
        """Who a prompt says is asking: `Assistant`, or the tool's registered name."""
        return "Assistant" if self.source == "assistant" else self.name or self.source


ASSISTANT = Source("assistant")
USER = Source("user")
