"""Checks that the graphs inside of a graph keep checkpoints, by which their nodes get the answers that they wait for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from msgspec import Struct

from midturn.errors import ConfigError
from midturn.integrations import needs_extra

with needs_extra("langgraph", "langgraph"):
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

Saver: TypeAlias = "BaseCheckpointSaver[Any]"


class Nested(Struct, frozen=True):
    """A graph inside of another one, in which a node waits: `place` is its namespace in the checkpoints of `saver`."""

    thread: str
    place: str
    saver: Saver


def nested_graph(config: RunnableConfig) -> Nested | None:
    """Return the graph of the node that runs with this configuration; None if it is not inside of another one.

    A `@task` of the functional API has the namespace of its caller, as if that were a graph: it is not checked.
    """
    configurable = cast("Mapping[str, Any]", config.get("configurable", {}))
    path = cast("Sequence[object]", config.get("metadata", {}).get("langgraph_path", ()))
    if len(path) > 1 and isinstance(path[1], tuple):
        return None
    saver = cast("object", configurable.get("__pregel_checkpointer"))
    graphs = [*cast("Mapping[str, object]", configurable.get("checkpoint_map", {}))]  # the namespaces of the graphs around, from outside
    if not graphs or not graphs[-1] or not isinstance(saver, BaseCheckpointSaver):
        return None
    return Nested(str(configurable.get("thread_id")), graphs[-1], cast("Saver", saver))


async def check_saved(graphs: Mapping[str, Nested], has_saved: Callable[[Saver, RunnableConfig], Awaitable[bool]]) -> None:
    """Refuse graphs that keep no checkpoints: their nodes have other identities in each run, so that no answer would reach them.

    Args:
        graphs: The nested graphs that wait, by their places.
        has_saved: Says whether a saver has a checkpoint.

    Raises:
        ConfigError: One of them keeps none.
    """
    for nested in graphs.values():
        config: RunnableConfig = {"configurable": {"thread_id": nested.thread, "checkpoint_ns": nested.place}}
        if not await has_saved(nested.saver, config):
            names = " > ".join(part.partition(":")[0] for part in nested.place.split("|"))
            raise ConfigError(
                f"The graph in node `{names}` keeps no checkpoints, so it would ask again after each answer. Compile that graph "
                "without `checkpointer=False`, and run this one again: then its question is asked once more, and the answer reaches it."
            )
