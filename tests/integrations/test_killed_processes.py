"""A process that is killed while a framework runs; another one goes on: no side effect twice, and nobody is asked twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import midturn as mt
from support.warm_commands import Command, Running, killed

PROGRAM = Path(__file__).parents[1] / "support" / "framework_processes.py"
FRAMEWORKS = ("pydantic_ai", "openai_agents", "langgraph")


class World:
    """What processes share: a store, the state of the framework, and what the tools did."""

    def __init__(self, framework: str, here: Path) -> None:
        self.framework = framework
        self.here = here
        self.store = mt.open_store(here / "conversations")
        self.conversation = self.store.new_sync("Ship it.")
        self.asked: list[str] = []

    @contextmanager
    def process(self) -> Generator[Running]:
        """Start a process of the program, which finds its framework loaded; it is killed with the block."""
        arguments = [self.framework, str(self.here), self.conversation]
        with killed(Running(Command(arguments, self.here, os.environ, speaks=True, program=PROGRAM))) as running:
            yield running

    def run(self) -> str:
        """Run a process to its end; return the last thing that it said."""
        with self.process() as running:
            printed, errors = running.communicate(timeout=90)
        assert running.returncode == 0, errors
        return printed.splitlines()[-1]

    def kill_in_the_tool(self, stay: str = "stay") -> None:
        """Run a process until the tool works, and kill it there: before its effect, or with `stay-after` after it."""
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
        """Answer the question that was asked first."""
        question = self.store.pending_sync(self.conversation)[0]
        self.asked.append(question.question.text)
        self.store.answer_sync(question.id, value=True)

    @property
    def effects(self) -> list[str]:
        """What the tools did."""
        return sorted((self.here / "effects").read_text(encoding="utf-8").split()) if (self.here / "effects").exists() else []

    def recorded(self) -> list[str]:
        """Return every question that was recorded."""
        return [request.question.text for request, _ in self.store.read_sync(self.conversation).pairs()]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_process_killed_in_a_tool_is_followed_by_one_that_asks_and_does_nothing_twice(framework: str, tmp_path: Path) -> None:
    world = World(framework, tmp_path)
    assert world.run() == "waits"
    assert sorted(one.question.text for one in world.store.pending_sync()) == ["Deploy to eu?", "Deploy to us?"]
    while world.store.pending_sync(world.conversation):
        world.answer()
    world.kill_in_the_tool()

    said = world.run()

    assert said.startswith("done: ")
    assert world.effects == ["eu", "us"]
    assert sorted(world.asked) == ["Deploy to eu?", "Deploy to us?"]
    assert sorted(world.recorded()) == ["Deploy to eu?", "Deploy to us?"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_call_whose_effect_was_made_and_not_recorded_is_made_again_under_the_same_key_and_nobody_is_asked_again(
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
def test_a_process_that_is_killed_after_any_write_is_followed_by_one_that_asks_nobody_twice(framework: str, tmp_path: Path) -> None:
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
                printed, errors = running.communicate(timeout=90)
            assert running.returncode in (0, -signal.SIGKILL), errors
            assert running.returncode == 0 or not killed_once
            killed_once |= running.returncode != 0
            said = printed.splitlines()[-1] if running.returncode == 0 else ""
            while world.store.pending_sync(world.conversation):
                world.answer()

        assert sorted(world.asked) == sorted(world.recorded()) == ["Deploy to eu?", "Deploy to us?"], f"killed after write {number}"
        keys = set((here / "keys").read_text(encoding="utf-8").splitlines())
        assert len(keys) == 2, f"killed after write {number}: a call that was made again had another idempotency key"
        if not killed_once:
            return
