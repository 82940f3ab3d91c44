"""`help()` is enough: it says what each parameter is, of everything public that is made or called, in the core and the adapters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, cast

import pytest

import midturn as mt
import midturn.testing

MODULES = ("midturn.integrations.pydantic_ai", "midturn.integrations.langgraph", "midturn.integrations.openai_agents", "midturn.otel")
MADE_BY_US = {
    "ConversationStore": ("open_store", "MemoryStore"),
    "FormAnswers": ("ask_form",),
    "InquirerCall": ("Inquirer.run", "Inquirer.call"),
    "ToolContext": ("tool",),
    "TurnStream": ("Agent.stream",),
    "SyncTurnStream": ("Agent.stream_sync",),
}
"""What nobody builds, and what makes it."""
BY_OTHERS = {"wrap_tool_execute", "handle_deferred_tool_calls", "Graph"}  # called, or defined, by a framework


def public() -> Iterator[tuple[str, Any]]:
    for name in dir(mt):
        if name not in ("__version__", "events", "UNSET"):
            yield name, getattr(mt, name)
    for name in dir(midturn.testing):
        yield f"testing.{name}", getattr(midturn.testing, name)
    for name in MODULES:
        module = pytest.importorskip(name)
        for local, value in cast("dict[str, Any]", vars(module)).items():
            if not local.startswith("_") and getattr(value, "__module__", None) == name:
                yield f"{name.removeprefix('midturn.')}.{local}", value


def taught() -> Iterator[tuple[str, Any, str]]:
    """Yield what is called, with what `help()` says of it: constructors with their class, methods with the one that they stand for."""
    for name, value in public():
        if inspect.isclass(value):
            if not issubclass(value, BaseException | dict) and name not in MADE_BY_US and not getattr(value, "_is_protocol", False):
                yield name, value, f"{inspect.getdoc(value)}\n{inspect.getdoc(value.__init__)}"
            yield from methods(name, value)
        elif inspect.isroutine(value):
            yield name, value, said_of(value, import_module(value.__module__))


def methods(name: str, kind: Any) -> Iterator[tuple[str, Any, str]]:
    for method in dir(kind):
        value = getattr(kind, method)
        if method.startswith("_") or not (inspect.isfunction(value) or inspect.ismethod(value)):
            continue
        if any(method in vars(base) and base.__module__.startswith("midturn") for base in kind.__mro__):
            yield f"{name}.{method}", value, said_of(value, kind)


def said_of(value: Any, home: Any) -> str:
    """Return a docstring; a `_sync` form may name the form that it stands for, and leave the parameters to it."""
    said = inspect.getdoc(value) or ""
    name: str = value.__name__
    asynchronous = name.removesuffix("_sync")
    if asynchronous != name and re.search(rf"`(\w+\.)?{asynchronous}`", said):
        said += inspect.getdoc(getattr(home, asynchronous)) or ""
    return said


def untaught(name: str, value: Any, said: str) -> list[str]:
    """Return the parameters that are neither in a list of arguments nor named in the text."""
    if not BY_OTHERS.isdisjoint(name.split(".")):
        return []
    parameters = inspect.signature(value).parameters.values()
    named = [parameter.name for parameter in parameters if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)]
    return [each for each in named if each != "self" and not re.search(rf"\b{each}:|`{each}\b[^`]*`", said)]


def test_help_says_what_every_parameter_is() -> None:
    missing = {name: found for name, value, said in taught() if (found := untaught(name, value, said))}
    assert missing == {}


def test_whoever_is_made_by_us_says_who_makes_it() -> None:
    unsaid = {
        name: [maker for maker in makers if f"`{maker}" not in (inspect.getdoc(getattr(mt, name)) or "")]
        for name, makers in MADE_BY_US.items()
    }
    assert {name: makers for name, makers in unsaid.items() if makers} == {}


def test_help_can_show_the_signature_of_everything() -> None:
    for name, value, _ in taught():
        assert inspect.signature(value), name


def test_help_speaks_of_no_document_that_nobody_has() -> None:
    texts = [(name, inspect.getdoc(value) or "") for name, value, _ in taught()]
    assert [name for name, said in texts if re.search(r"\bspec\b|§|\bissue \d|chapter \d", said)] == []


def begins_with_a_question(said: str) -> bool:
    return re.match(r"(What|Which|Who|Whose|How|Where|When|Why)\b", said) is not None


def test_help_names_things_by_nouns() -> None:
    """It begins with what a thing is or does, and speaks of a person or a process by a noun."""
    everything = {
        **{name: inspect.getdoc(value) or "" for name, value in public() if inspect.isclass(value)},
        **{name: said for name, _, said in taught()},
    }
    assert len(everything) > 200
    assert [name for name, said in everything.items() if begins_with_a_question(said)] == []
    assert [name for name, said in everything.items() if re.search(r"\b(whoever|nobody|somebody)\b", said, re.IGNORECASE)] == []
