"""Entry point of the conformance suite: runs the stories with an adapter and returns a result for
each story.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

from msgspec import Struct

from midturn.stores.sync_forms import refuse_inside_a_loop
from midturn.testing.adapters import answers, calls, entries
from midturn.testing.adapters.program import AdapterHarness, Capability
from midturn.testing.adapters.scene import Scene

Story: TypeAlias = Callable[[Scene], Awaitable[None]]
_STORIES: Final[Mapping[str, Story]] = {
    story.__name__: story for story in (*answers.STORIES, *calls.STORIES, *entries.STORIES)
}
_NEEDS: Final[Mapping[str, Capability]] = {
    "a_guardrail": "guardrails",
    "an_image": "images",
    "a_context": "context",
    "equal_ids": "equal ids",
    "lost_state": "lost state",
}


class StoryResult(Struct, frozen=True):
    """Result of a story.

    Args:
        story: Name of the story.
        missing: Reason why the framework does not support the story. Empty if the story passed.
    """

    story: str
    missing: str = ""


def adapter_stories() -> Mapping[str, str]:
    """Return the name of each story of `check_adapter`, with its description."""
    return {name: " ".join((story.__doc__ or "").split()) for name, story in _STORIES.items()}


def missing_in(harness: AdapterHarness, story: str) -> str:
    """Return why a framework does not support a story, or an empty string if it is supported.

    Args:
        harness: The framework.
        story: Name of the story.
    """
    needed = _NEEDS.get(story)
    return "" if needed is None else harness.missing.get(needed, "")


async def check_adapter(
    harness: AdapterHarness, stories: Sequence[str] = ()
) -> Sequence[StoryResult]:
    """Run stories with an adapter. Each decision must count once, for its own call, in each process
    (docs/frameworks/conformance.md).

    Each story has its own store and files in a temporary directory. Its result is compared with the
    recorded events and, for some stories, with the same agent in the framework without midturn.

    Args:
        harness: Runs agents in the framework.
        stories: Names of the stories, as listed by `adapter_stories`. Default: all.

    Returns:
        A result for each story.

    Raises:
        AssertionError: A check failed. The message contains the name of the story.
        KeyError: A name in `stories` is unknown.
    """
    results = list[StoryResult]()
    for name in stories or _STORIES:
        story = _STORIES[name]
        missing = missing_in(harness, name)
        if not missing:
            with TemporaryDirectory() as folder:
                await _play(story, Scene(harness, Path(folder)))
        results.append(StoryResult(name, missing))
    return results


def check_adapter_sync(
    harness: AdapterHarness, stories: Sequence[str] = ()
) -> Sequence[StoryResult]:
    """Run stories with an adapter. Synchronous version of `check_adapter`.

    Args:
        harness: Runs agents in the framework.
        stories: Names of the stories. Default: all.

    Raises:
        AssertionError: A check failed. The message contains the name of the story.
        RuntimeError: An event loop is running in this thread; use `await check_adapter(…)` instead.
    """
    refuse_inside_a_loop("check_adapter_sync", "await check_adapter(…)")
    return asyncio.run(check_adapter(harness, stories))


async def _play(story: Story, scene: Scene) -> None:
    try:
        await scene.begin()
        await story(scene)
        await scene.check_effects()
    except AssertionError as error:
        raise AssertionError(f"{scene.harness.name}, {story.__name__}: {error}") from error
    except Exception as error:
        raise AssertionError(f"{scene.harness.name}, {story.__name__}: {error!r}") from error
