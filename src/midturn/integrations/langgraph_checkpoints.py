"""Checks that nested graphs save checkpoints. Without checkpoints, the nodes of a nested graph
cannot receive answers.
"""

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


class NestedGraph(Struct, frozen=True):
    """A nested graph with a waiting node. `place` is the graph's namespace in the checkpoints of
    `saver`.
    """

    thread: str
    place: str
    saver: Saver


def nested_graph(config: RunnableConfig) -> NestedGraph | None:
    """Return the nested graph that contains the node with this configuration, or None if the
    node's graph is not nested.

    Returns None for a `@task` of the functional API. A task is not a graph, although it has the
    namespace of its caller.
    """
    configurable = cast("Mapping[str, Any]", config.get("configurable", {}))
    path = cast("Sequence[object]", config.get("metadata", {}).get("langgraph_path", ()))
    if len(path) > 1 and isinstance(path[1], tuple):
        return None
    saver = cast("object", configurable.get("__pregel_checkpointer"))
    graphs = [
        *cast("Mapping[str, object]", configurable.get("checkpoint_map", {}))
    ]  # namespaces of the enclosing graphs, outermost first
    if not graphs or not graphs[-1] or not isinstance(saver, BaseCheckpointSaver):
        return None
    return NestedGraph(str(configurable.get("thread_id")), graphs[-1], cast("Saver", saver))


async def check_saved(
    graphs: Mapping[str, NestedGraph], has_saved: Callable[[Saver, RunnableConfig], Awaitable[bool]]
) -> None:
    """Raise an error if a nested graph does not save checkpoints. Without checkpoints, its nodes
    have new ids in each run, so answers cannot be matched to questions.

    Args:
        graphs: Waiting nested graphs by their namespaces.
        has_saved: Returns whether a saver has a checkpoint.

    Raises:
        ConfigError: A nested graph does not save checkpoints.
    """
    for nested in graphs.values():
        config: RunnableConfig = {
            "configurable": {"thread_id": nested.thread, "checkpoint_ns": nested.place}
        }
        if not await has_saved(nested.saver, config):
            names = " > ".join(part.partition(":")[0] for part in nested.place.split("|"))
            raise ConfigError(
                f"The graph in node `{names}` does not save checkpoints, so it would ask again"
                " after each answer. Compile that graph without `checkpointer=False`, then run this"
                " graph again. Its question is asked once more, and the answer is used."
            )
