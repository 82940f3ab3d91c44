"""The docstring of each public function, class and method explains each of its parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import pytest

import midturn as mt
import midturn.testing

MODULES = (
    "midturn.integrations.pydantic_ai",
    "midturn.integrations.langgraph",
    "midturn.integrations.openai_agents",
    *(["midturn.integrations.a2a"] if find_spec("a2a") else []),
    "midturn.integrations.agui",
    "midturn.otel",
)
MADE_BY_US = {
    "ConversationStore": ("open_store", "MemoryStore"),
    "FormAnswers": ("ask_form",),
    "InquirerCall": ("Inquirer.run", "Inquirer.call"),
    "ToolContext": ("tool",),
    "TurnStream": ("Agent.stream",),
    "SyncTurnStream": ("Agent.stream_sync",),
}
"""Classes that users do not construct, with the functions that return them."""
# called or defined by a framework
BY_OTHERS = {"wrap_tool_execute", "handle_deferred_tool_calls", "Graph"}


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


def documented_callables() -> Iterator[tuple[str, Any, str]]:
    """Yield each callable with its help text.

    Constructors include the class text; methods include the text of their asynchronous form.
    """
    for name, value in public():
        if inspect.isclass(value):
            if (
                not issubclass(value, BaseException | dict)
                and name not in MADE_BY_US
                and not getattr(value, "_is_protocol", False)
            ):
                yield name, value, f"{inspect.getdoc(value)}\n{inspect.getdoc(value.__init__)}"
            yield from methods(name, value)
        elif inspect.isroutine(value):
            yield name, value, help_text(value, import_module(value.__module__))


def methods(name: str, kind: Any) -> Iterator[tuple[str, Any, str]]:
    for method in dir(kind):
        value = getattr(kind, method)
        if method.startswith("_") or not (inspect.isfunction(value) or inspect.ismethod(value)):
            continue
        if any(
            method in vars(base) and base.__module__.startswith("midturn") for base in kind.__mro__
        ):
            yield f"{name}.{method}", value, help_text(value, kind)


def help_text(value: Any, home: Any) -> str:
    """Return a docstring.

    A `_sync` method may name its asynchronous form, whose docstring then counts too.
    """
    said = inspect.getdoc(value) or ""
    name: str = value.__name__
    asynchronous = name.removesuffix("_sync")
    if asynchronous != name and re.search(rf"`(\w+\.)?{asynchronous}`", said):
        said += inspect.getdoc(getattr(home, asynchronous)) or ""
    return said


def undocumented_parameters(name: str, value: Any, said: str) -> list[str]:
    """Return the parameters that are neither in an argument list nor named in the text."""
    if not BY_OTHERS.isdisjoint(name.split(".")):
        return []
    parameters = inspect.signature(value).parameters.values()
    named = [
        parameter.name
        for parameter in parameters
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    return [
        each
        for each in named
        if each != "self" and not re.search(rf"\b{each}:|`{each}\b[^`]*`", said)
    ]


def test_help_explains_every_parameter() -> None:
    missing = {
        name: found
        for name, value, said in documented_callables()
        if (found := undocumented_parameters(name, value, said))
    }
    assert missing == {}


def test_help_of_a_returned_class_names_its_factory() -> None:
    unsaid = {
        name: [
            maker
            for maker in makers
            if f"`{maker}" not in (inspect.getdoc(getattr(mt, name)) or "")
        ]
        for name, makers in MADE_BY_US.items()
    }
    assert {name: makers for name, makers in unsaid.items() if makers} == {}


def test_help_shows_every_signature() -> None:
    for name, value, _ in documented_callables():
        assert inspect.signature(value), name


def test_help_refers_to_no_unpublished_document() -> None:
    texts = [(name, inspect.getdoc(value) or "") for name, value, _ in documented_callables()]
    assert [
        name for name, said in texts if re.search(r"\bspec\b|§|\bissue \d|chapter \d", said)
    ] == []


def begins_with_a_question(said: str) -> bool:
    return re.match(r"(What|Which|Who|Whose|How|Where|When|Why)\b", said) is not None


def test_help_uses_nouns() -> None:
    """The text begins with a noun or a verb and refers to persons and processes by nouns."""
    everything = {
        **{name: inspect.getdoc(value) or "" for name, value in public() if inspect.isclass(value)},
        **{name: said for name, _, said in documented_callables()},
    }
    assert len(everything) > 200
    assert [name for name, said in everything.items() if begins_with_a_question(said)] == []
    assert [
        name
        for name, said in everything.items()
        if re.search(r"\b(whoever|nobody|somebody)\b", said, re.IGNORECASE)
    ] == []
