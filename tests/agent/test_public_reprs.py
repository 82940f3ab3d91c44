"""Errors and reprs show public class names and never a private module."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import midturn as mt
import midturn.testing


def public_classes() -> Iterator[tuple[str, type[Any]]]:
    for module in (mt, midturn.testing):
        for name in dir(module):
            value = getattr(module, name)
            if inspect.isclass(value) and value.__module__.startswith("midturn."):
                yield name, value


def test_errors_call_each_public_method_by_a_public_name() -> None:
    names = {name for name, _ in public_classes()}
    wrong: list[str] = []
    for name, kind in public_classes():
        if issubclass(kind, BaseException):  # programs catch exceptions but do not create them
            continue
        for method in (each for each in dir(kind) if not each.startswith("_")):
            found = inspect.getattr_static(kind, method)
            function = getattr(found, "__func__", found)
            owner, _, _ = getattr(function, "__qualname__", method).rpartition(".")
            if (
                inspect.isfunction(function)
                and function.__module__.startswith("midturn.")
                and owner
                and owner not in names
            ):
                wrong.append(f"{name}.{method}: {function.__qualname__}")

    assert wrong == []


def test_a_missing_argument_is_reported_under_the_public_name() -> None:
    with pytest.raises(
        TypeError, match=r"^Question\.boolean\(\) missing 2 required positional arguments"
    ):
        mt.Question.boolean()  # pyright: ignore[reportCallIssue]


def test_reprs_show_public_names(tmp_path: Path) -> None:
    agent = mt.Agent(
        mt.FunctionModel(lambda _: "Hello.", name="greeter"),
        store=mt.open_store(tmp_path / "conversations"),
    )
    conversation = agent.run_sync("Hello.").conversation
    shown: list[object] = [
        agent,
        agent.store,
        agent.store.read_sync(conversation),
        mt.MemoryStore(),
        mt.Inquirer(agent.store, conversation),
        mt.ScriptedModel([]),
        mt.ScriptedPrompter(),
        mt.InboxPrompter(),
        mt.Rules({}),
        mt.FormWalker(mt.Form((mt.Question.boolean("sure", "Sure?"),))),
        midturn.testing.Clock(),
    ]

    assert repr(agent) == "<midturn.Agent model='greeter' tools=[]>"
    for value in shown:
        public = repr(value).removeprefix("<midturn.").removeprefix("testing.").split()[0]
        assert public in {*dir(mt), *dir(midturn.testing)}, repr(value)


def test_a_class_of_the_program_keeps_its_own_repr() -> None:
    class Own(mt.Prompter):
        async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
            raise AssertionError(prompt)

    assert repr(Own()).startswith(f"<{__name__}.")


def test_every_public_class_without_fields_has_a_repr_of_its_own() -> None:
    plain = [
        name
        for name, kind in public_classes()
        if kind.__repr__ is object.__repr__
        and not issubclass(kind, msgspec.Struct)
        and not getattr(kind, "_is_protocol", False)
    ]

    assert plain == []
