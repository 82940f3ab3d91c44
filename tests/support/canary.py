"""A secret that must not leak: the ways a tool receives it, the ways it could leak it, and the
encodings in which it could appear.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote, quote_plus

import midturn as mt
from midturn.turn.inputs import FormWanted

SECRET = "canary-7f \"Ö\\n'&/+=? staple"
WRONG = "parrot-9a \"Ü\\t'&/+=? hinge"
ASK = mt.Question.secret("passphrase", "The passphrase?")
AGAIN = mt.Question.secret("passphrase", "Wrong. Once more?")
NAME = mt.Question.text("name", "Your name?")

ENCODINGS: Mapping[str, Callable[[str], str]] = {
    "plain": str,
    "JSON": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON in ASCII": lambda text: json.dumps(text)[1:-1],
    "URL": lambda text: quote(text, safe=""),
    "form": quote_plus,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "repr": lambda text: repr(text)[1:-1],
    "HTML": html.escape,
    "JSON in JSON": lambda text: json.dumps(
        json.dumps(text, ensure_ascii=False)[1:-1], ensure_ascii=False
    )[1:-1],
}
"""Encodings in which a program might write the secret."""

Leak: TypeAlias = Callable[[mt.ToolContext, str], Any]


def raises(make: Callable[[str], BaseException]) -> Leak:
    """Leak with an exception."""

    def leak(_: mt.ToolContext, text: str) -> Any:
        raise make(text)

    return leak


def noted(text: str) -> BaseException:
    error = ValueError("see the note")
    error.add_note(text)
    return error


def caused(text: str) -> BaseException:
    error = ValueError("see the cause")
    error.__cause__ = KeyError(text)
    return error


def asks(**parts: Callable[[str], Any]) -> Leak:
    """Leak with a question that is not checked when it is created."""

    def leak(_: mt.ToolContext, text: str) -> Any:
        fields: dict[str, Any] = {"id": "next", "text": "And now?", "answer_type": mt.TextType()}
        return mt.NeedsInput(
            mt.Form(
                [mt.Question(**{**fields, **{name: part(text) for name, part in parts.items()}})]
            )
        )

    return leak


def logged(_: mt.ToolContext, text: str) -> Any:
    """Leak with an exception of several lines."""
    raise RuntimeError("line\n" * 80 + text + "\nline" * 5)


LEAKS: Mapping[str, Leak] = {
    "a result": lambda _, text: f"used {text}",
    "a JSON result": lambda _, text: {"used": [text]},
    "a key of a result": lambda _, text: {text: 1},
    "a long result": lambda _, text: "x" * 1_980 + text + "y" * 4_000,
    "an error": lambda _, text: mt.ToolError(f"failed with {text}"),
    "the trace of an error": lambda _, text: mt.ToolError("failed", (f"at {text}",)),
    "a rejection": raises(lambda text: mt.Rejected(f"Not with {text}.")),
    "an exception": raises(lambda text: ValueError(f"no login with {text}")),
    "a note of an exception": raises(noted),
    "the cause of an exception": raises(caused),
    "a group of exceptions": raises(lambda text: ExceptionGroup(text, [ValueError(text)])),
    "an exception of many lines": logged,
    "an exit": raises(SystemExit),
    "the text of a question": asks(text=lambda text: f"{text}?"),
    "the context of a question": asks(context=lambda text: f"> {text}"),
    "an option": asks(
        answer_type=lambda text: mt.SelectType((mt.SelectOption(text), mt.SelectOption("no")))
    ),
    "the description of an option": asks(
        answer_type=lambda text: mt.SelectType((mt.SelectOption("a", text), mt.SelectOption("b")))
    ),
    "a default": asks(default=str),
    "a schema": asks(
        answer_type=lambda text: mt.SchemaType({"type": "string", "description": text})
    ),
    "a property of a schema": asks(
        answer_type=lambda text: mt.SchemaType(
            {"type": "object", "properties": {text: {"type": "string"}}}
        )
    ),
}
"""The ways to leak the secret."""


def tools(act: Leak, encode: Callable[[str], str]) -> Iterator[tuple[str, mt.Tool]]:
    """Yield a tool for each way to receive a secret."""

    def leak(ctx: mt.ToolContext, *given: mt.SecretValue) -> Any:
        return act(ctx, " ".join(encode(secret.reveal()) for secret in given))

    @mt.tool(name="login")
    async def once(ctx: mt.ToolContext) -> Any:
        return leak(ctx, await ctx.ask(ASK))

    @mt.tool(name="login")
    async def twice(ctx: mt.ToolContext) -> Any:
        return leak(ctx, await ctx.ask(ASK), await ctx.ask(AGAIN))

    @mt.tool(name="login")
    async def form(ctx: mt.ToolContext) -> Any:
        return leak(ctx, (await ctx.ask_form(mt.Form([NAME, ASK])))[ASK])

    @mt.tool(name="login")
    async def tried(ctx: mt.ToolContext) -> Any:
        answer = await ctx.try_ask(ASK)
        assert isinstance(answer, mt.Answer)
        return leak(ctx, answer.value)

    @mt.tool(name="login")
    def threaded(ctx: mt.ToolContext) -> Any:
        return leak(ctx, ctx.ask_sync(ASK))

    @mt.tool(name="login")
    def returned(ctx: mt.ToolContext) -> Any:
        given = ctx.answers.get("passphrase")
        return (
            leak(ctx, given) if isinstance(given, mt.SecretValue) else mt.NeedsInput(mt.Form([ASK]))
        )

    yield "asked once", once
    yield "asked twice", twice
    yield "in a form", form
    yield "tried", tried
    yield "in a thread", threaded
    yield "returned", returned
    yield "own tool", CustomTool(leak)


class CustomTool(mt.Tool):
    """A custom tool. It asks twice and chooses its own source."""

    def __init__(self, leak: Callable[..., Any]) -> None:
        self._leak = leak

    @property
    def definition(self) -> mt.ToolDefinition:
        return mt.ToolDefinition("login", "", {"type": "object"})

    async def execute(self, run: mt.ToolRun) -> Any:
        """Ask for the passphrase twice, then leak both."""
        given: list[Any] = []
        for question in (ASK, AGAIN):
            answers: Any = await run.ask(FormWanted(mt.Form([question]), mt.Source("user")))
            given.append(answers["passphrase"].value)
        outcome = self._leak(None, *given)
        return (
            outcome
            if isinstance(outcome, mt.ToolError | mt.NeedsInput)
            else mt.Success(json.dumps(outcome, ensure_ascii=False))
        )
