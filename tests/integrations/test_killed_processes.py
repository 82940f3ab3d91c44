"""A process is killed while a framework runs, and another continues: no effect happens twice,
and nobody is asked twice.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import midturn as mt
from support.warm_commands import Command, Running, kill_at_exit

PROGRAM = Path(__file__).parents[1] / "support" / "framework_processes.py"
FRAMEWORKS = ("pydantic_ai", "openai_agents", "langgraph")


class World:
    """Shared by the processes: a store, the state of the framework, and the effects of the
    tools.
    """

    def __init__(self, framework: str, here: Path) -> None:
        self.framework = framework
        self.here = here
        self.store = mt.open_store(here / "conversations")
        self.conversation = self.store.new_sync("Ship it.")
        self.asked: list[str] = []

    @contextmanager
    def process(self) -> Generator[Running]:
        """Start a process of the program, which has its framework loaded. It is killed at the
        end of the block.
        """
        arguments = [self.framework, str(self.here), self.conversation]
        with kill_at_exit(
            Running(Command(arguments, self.here, os.environ, uses_network=True, program=PROGRAM))
        ) as running:
            yield running

    def run(self) -> str:
        """Run a process to its end; return its last line of output."""
        with self.process() as running:
            printed, errors = running.communicate(timeout=120)
        assert running.returncode == 0, errors
        return printed.splitlines()[-1]

    def kill_in_the_tool(self, stay: str = "stay") -> None:
        """Run a process until the tool works and kill it there: before its effect, or after it
        with `stay-after`.
        """
        (self.here / stay).touch()
        with self.process() as running:
            for said in running.stdout:
                if said == "in the tool\n":
                    break
            else:
                raise AssertionError(running.stderr.read())
            running.kill()
        (self.here / stay).unlink()

    def answer(self) -> None:
        """Answer the first question."""
        question = self.store.pending_sync(self.conversation)[0]
        self.asked.append(question.question.text)
        self.store.answer_sync(question.id, value=True)

    @property
    def effects(self) -> list[str]:
        """The effects of the tools."""
        return (
            sorted((self.here / "effects").read_text(encoding="utf-8").split())
            if (self.here / "effects").exists()
            else []
        )

    def recorded(self) -> list[str]:
        """Return every recorded question."""
        return [
            request.question.text for request, _ in self.store.read_sync(self.conversation).pairs()
        ]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_after_a_kill_in_a_tool_nothing_is_asked_or_done_twice(
    framework: str, tmp_path: Path
) -> None:
    world = World(framework, tmp_path)
    assert world.run() == "waits"
    assert sorted(one.question.text for one in world.store.pending_sync()) == [
        "Deploy to eu?",
        "Deploy to us?",
    ]
    while world.store.pending_sync(world.conversation):
        world.answer()
    world.kill_in_the_tool()

    said = world.run()

    assert said.startswith("done: ")
    assert world.effects == ["eu", "us"]
    assert sorted(world.asked) == ["Deploy to eu?", "Deploy to us?"]
    assert sorted(world.recorded()) == ["Deploy to eu?", "Deploy to us?"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_unrecorded_effect_is_repeated_with_the_same_key_without_asking(
    framework: str, tmp_path: Path
) -> None:
    world = World(framework, tmp_path)
    assert world.run() == "waits"
    while world.store.pending_sync(world.conversation):
        world.answer()
    world.kill_in_the_tool("stay-after")
    assert "eu" in world.effects

    assert world.run().startswith("done: ")

    made = [line.split() for line in (tmp_path / "keys").read_text(encoding="utf-8").splitlines()]
    keys = [key for env, key in made if env == "eu"]
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert len({key for _, key in made}) == 2
    assert sorted(world.asked) == sorted(world.recorded()) == ["Deploy to eu?", "Deploy to us?"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_after_a_kill_at_any_write_nobody_is_asked_twice(framework: str, tmp_path: Path) -> None:
    number = 0
    while True:
        number += 1
        here = tmp_path / str(number)
        here.mkdir()
        world = World(framework, here)
        (here / "die-at").write_text(str(number), encoding="utf-8")
        killed_once, said = False, ""
        while not said.startswith("done: "):
            with world.process() as running:
                printed, errors = running.communicate(timeout=120)
            assert running.returncode in (0, -signal.SIGKILL), errors
            assert running.returncode == 0 or not killed_once
            killed_once |= running.returncode != 0
            said = printed.splitlines()[-1] if running.returncode == 0 else ""
            while world.store.pending_sync(world.conversation):
                world.answer()

        assert (
            sorted(world.asked) == sorted(world.recorded()) == ["Deploy to eu?", "Deploy to us?"]
        ), f"killed after write {number}"
        keys = set((here / "keys").read_text(encoding="utf-8").splitlines())
        assert len(keys) == 2, (
            f"killed after write {number}: a call that was made again had another idempotency key"
        )
        if not killed_once:
            return
