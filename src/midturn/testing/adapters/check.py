"""The entry of the suite: plays the stories with a framework, and returns a result for each."""

from __future__ import annotations

import asyncio
import inspect
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
_STORIES: Final[Mapping[str, Story]] = {story.__name__: story for story in (*answers.STORIES, *calls.STORIES, *entries.STORIES)}
_NEEDS: Final[Mapping[str, Capability]] = {
    "a_guardrail": "guardrails",
    "an_image": "images",
    "a_context": "context",
    "equal_ids": "equal ids",
    "lost_state": "lost state",
}


class StoryResult(Struct, frozen=True):
    """The result of a story: it passed, or `missing` says why the framework cannot have it."""

    story: str
    missing: str = ""


def adapter_stories() -> Mapping[str, str]:
    """Return what `check_adapter` plays: the name of each story, and what has to hold in it."""
    return {name: inspect.cleandoc(story.__doc__ or "") for name, story in _STORIES.items()}


def missing_in(harness: AdapterHarness, story: str) -> str:
    """Return why a framework cannot have a story; empty if it can.

    Args:
        harness: The framework.
        story: The name of the story.
    """
    needed = _NEEDS.get(story)
    return "" if needed is None else harness.missing.get(needed, "")


async def check_adapter(harness: AdapterHarness, stories: Sequence[str] = ()) -> Sequence[StoryResult]:
    """Play stories with an adapter: what a person decides counts once, for its own call, in each process (docs/frameworks/conformance.md).

    Each story has a store and files of its own, in a temporary directory. It is compared with what is recorded and, where that makes
    sense, with the same agent in the framework without midturn.

    Args:
        harness: Runs agents in the framework.
        stories: The names of the stories, as `adapter_stories` lists them; all without any.

    Returns:
        A result for each story.

    Raises:
        AssertionError: Something does not hold; the message names the story.
        KeyError: There is no story of such a name.
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


def check_adapter_sync(harness: AdapterHarness, stories: Sequence[str] = ()) -> Sequence[StoryResult]:
    """Play stories with an adapter, in a test that is not async (see `check_adapter`).

    Args:
        harness: Runs agents in the framework.
        stories: The names of the stories; all without any.

    Raises:
        AssertionError: Something does not hold; the message names the story.
        RuntimeError: An event loop is running in this thread; use `await check_adapter(…)` there.
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
