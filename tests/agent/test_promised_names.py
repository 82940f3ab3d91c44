"""The promised public API: names, parameters with their order and defaults, attributes, and error
texts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, cast

import pytest

import midturn as mt
import midturn.testing

A_QUESTION = {
    "default": None,
    "context": None,
    "exclusive": False,
    "persistence": "turn",
    "optional": False,
    "when": None,
}
A_RUN = {
    "conversation": None,
    "history": None,
    "deps": None,
    "author": None,
    "prompter": None,
    "schema": None,
}
NEEDED = inspect.Parameter.empty

SIGNATURES: list[tuple[Callable[..., Any], str, dict[str, Any]]] = [
    # name, positional parameters, keyword parameters with their defaults
    (mt.Question.boolean, "id text", A_QUESTION),
    (mt.Question.select, "id text options", A_QUESTION),
    (mt.Question.multi_select, "id text options", A_QUESTION),
    (
        mt.Question.text,
        "id text",
        {**A_QUESTION, "pattern": None, "min_length": None, "max_length": None},
    ),
    (mt.Question.number, "id text", {**A_QUESTION, "type": float, "min": None, "max": None}),
    (
        mt.Question.secret,
        "id text",
        {name: value for name, value in A_QUESTION.items() if name != "default"},
    ),
    (mt.Question.schema, "id text schema", A_QUESTION),
    (mt.Question.from_json, "obj", {}),
    (mt.Question.to_json, "self", {}),
    (mt.Question.check, "self value", {"depth_limit": 128}),
    (mt.ToolContext.ask, "self question", {"check": None}),
    (mt.ToolContext.ask_form, "self form", {}),
    (mt.ToolContext.try_ask, "self question", {}),
    (mt.ToolContext.try_ask_form, "self form", {}),
    (mt.ask, "question", {"check": None}),
    (mt.ask_form, "form", {}),
    (mt.try_ask, "question", {}),
    (mt.try_ask_form, "form", {}),
    (mt.tool, "function", {"name": None, "description": None, "run": "unattended"}),
    (mt.Tool.execute, "self run", {}),
    (mt.Tool.inquiry_source, "self", {}),
    (
        mt.Agent,
        "model",
        {
            "tools": (),
            "instructions": "",
            "prompter": None,
            "detached": None,  # "defer", or the policy of the outer turn inside a tool
            "routes": None,
            "limits": None,
            "store": None,
            "may_answer": None,
        },
    ),
    (
        mt.ProviderModel,
        "id",
        {
            "base_url": None,
            "api_key": None,
            "parameters": None,
            "headers": None,
            "max_retries": 4,
            "timeout": 120,
        },
    ),
    (mt.open_store, "path", {"may_answer": None}),
    (mt.Agent.run, "self text", {**A_RUN, "on_event": None}),
    (mt.Agent.resume, "self conversation", {"deps": None, "prompter": None, "on_event": None}),
    (mt.Agent.stream, "self text", A_RUN),
    (mt.Agent.stream_resume, "self conversation", {"deps": None, "prompter": None}),
    (mt.RunResult.raise_if_failed, "self", {}),
    (mt.RunResult.to_json, "self", {}),
    (mt.Prompter.prompt, "self prompt", {}),
    (mt.Prompter.withdrawn, "self id by", {}),
    (mt.MemoryStore, "", {}),
    (mt.ConversationStore.new, "self title", {}),
    (mt.ConversationStore.pending, "self conversation", {}),
    (mt.ConversationStore.ready, "self", {}),
    (mt.ConversationStore.read, "self id", {}),
    (mt.ConversationStore.ids, "self", {}),
    (mt.ConversationStore.fork, "self id", {}),
    (mt.ConversationStore.remove, "self id", {}),
    (
        mt.ConversationStore.answer,
        "self id value",
        {
            "approve": None,
            "arguments": mt.UNSET,
            "content": mt.UNSET,
            "reply": None,
            "cancel": False,
            "reason": None,
            "user": None,
            "via": "api",
        },
    ),
    (mt.ConversationStore.watch, "self conversation", {}),
    (mt.Inquirer, "store conversation prompter detached", {"prompter": None, "detached": "defer"}),
    (mt.Inquirer.turn, "self text", {}),
    (mt.Inquirer.run, "self tool call_id arguments function", {}),
    (mt.Inquirer.call, "self tool call_id arguments", {}),
    (mt.InquirerCall.ask, "self question", {"check": None}),
    (
        mt.route,
        "question",
        {
            "target": "user",
            "cached": mt.UNSET,
            "configured": mt.UNSET,
            "attached": True,
            "detached": "defer",
            "exclusive": None,
        },
    ),
    (mt.FormWalker, "form", {}),
    (mt.Form, "questions", {}),
    (mt.FormWalker.step, "self", {}),
    (mt.FormWalker.feed, "self reply", {}),
    (mt.Ask, "question index total prefill can_go_back", {}),
    (mt.Review, "answers", {}),
    (mt.Completed, "answers", {}),
    (mt.Cancelled, "answered reply", {}),
    (
        mt.Answered,
        "value reason remember automatic",
        {"reason": None, "remember": False, "automatic": False},
    ),
    (mt.Replied, "text", {"text": None}),
    (mt.WentBack, "", {}),
    (mt.EndedTurn, "", {}),
    (mt.Edited, "value", {}),
    (mt.Submitted, "", {}),
    (mt.Deferred, "", {}),
    (mt.Unavailable, "", {}),
    (mt.Unanswered, "reason reply", {}),
    (mt.sanitize, "events", {}),
    (mt.Conversation.open, "path", {}),
    (mt.Conversation.pairs, "self", {}),
    (mt.Conversation.provider_view, "self", {}),
    (mt.Conversation.pending, "self", {}),
    (midturn.testing.run_tool, "tool arguments replies", {"deps": None}),
    (mt.ScriptedPrompter, "replies", {"unscripted": "raise"}),
    (mt.ScriptedModel, "replies", {}),
]

FIELDS = {
    mt.RunResult: "text structured status pending refused usage conversation error",
    mt.TurnUsage: "total requests by_model inquiries",
    mt.Receipt: "conversation id held",
    mt.OpenQuestion: (
        "id conversation kind source question_id question answer_schema form tool arguments content"
        " is_error problem asker asked_at to_json"
    ),
    mt.Prompt: (
        "question kind asked_by subject index total prefill error can_go_back can_reply"
        " may_remember id open"
    ),
    mt.Prompter: "concurrent via",
    mt.ToolContext: "answers arguments deps root cancelled idempotency_key",
    mt.InquirerCall: "idempotency_key",
    mt.ToolFinished: "exception",
    mt.Tool: "definition",
    mt.Conversation: "turns",
    mt.UseCached: "value",
    mt.UseConfigured: "value",
    mt.UseDefault: "value",
    mt.AskAssistant: "escalate",
    mt.Fail: "reason",
    mt.AlreadyAnswered: "to_json",
    midturn.testing.ToolRunReport: "content is_error exception asked",
}
ERRORS = (
    "ConfigError QuestionError AnswerError StoreError StoreLocked Busy ModelError AlreadyAnswered"
    " NotOpen TurnOpen Suspended CallEnded"
)
OF_A_STREAM = (
    "TextDelta ReasoningDelta ModelRetried ToolStarted Asked QuestionAnswered ToolFinished"
    " TurnEnded Recorded"
)
WITHOUT_A_SYNC_FORM = {
    # The runtime calls these methods in its event loop.
    "FunctionModel.stream", "FunctionTool.execute", "InboxPrompter.prompt", "InboxPrompter.withdrawn", "InputPrompter.prompt",
    "Prompter.prompt", "Rules.prompt", "ScriptedPrompter.prompt", "TerminalPrompter.prompt",
    "Tool.execute", "ToolContext.given", "ToolContext.given_by_people", "TurnStream.stop",
    "TurnStream.watched", "InquirerCall.end", "InquirerCall.execute", "InquirerCall.fail",
    # Code that holds a conversation's lock writes in an event loop.
    *(
        f"{store}.{name}"
        for store in ("ConversationStore", "MemoryStore")
        for name in ("claim", "create", "end_children", "open", "open_root", "ensure_drained")
    ),
    "ProviderModel.aclose",  # closes the connection of an event loop
}  # fmt: skip


@pytest.mark.parametrize(
    ("function", "by_position", "keywords"),
    SIGNATURES,
    ids=lambda given: getattr(given, "__qualname__", ""),
)
def test_a_signature_is_as_promised(
    function: Callable[..., Any], by_position: str, keywords: dict[str, Any]
) -> None:
    parameters = inspect.signature(function).parameters
    names = by_position.split()

    assert [name for name in parameters if name in names][: len(names)] == names
    assert {name: parameters[name].default for name in keywords if name in parameters} == keywords
    assert [
        name
        for name in keywords
        if name not in names and parameters[name].kind is not inspect.Parameter.KEYWORD_ONLY
    ] == []
    assert not any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
    )


@pytest.mark.parametrize(
    ("kind", "names"), FIELDS.items(), ids=lambda given: getattr(given, "__name__", "")
)
def test_a_class_has_what_is_promised(kind: type[Any], names: str) -> None:
    fields = cast("tuple[str, ...]", getattr(kind, "__struct_fields__", ()))
    assert {*names.split()} - {*dir(kind), *fields} == set()


def test_ask_returns_a_coroutine_without_a_truth_value() -> None:
    @mt.tool
    async def asks(ctx: mt.ToolContext) -> str:
        """Ask."""
        asking = ctx.ask(mt.Question.boolean("sure", "Sure?"))
        assert isinstance(asking, Coroutine)
        with pytest.raises(TypeError, match="await"):
            bool(asking)
        return str(await asking)

    assert midturn.testing.run_tool_sync(asks, {}, {"sure": True}).content == "True"


def test_every_prompter_is_a_prompter() -> None:
    for kind in (mt.TerminalPrompter, mt.ScriptedPrompter, mt.InboxPrompter, mt.InputPrompter):
        assert issubclass(kind, mt.Prompter)
    assert (mt.Prompter.concurrent, mt.Prompter.via) == (False, None)


def test_every_error_is_one_of_ours_and_has_a_json_form() -> None:
    for name in ERRORS.split():
        kind = getattr(mt, name)
        assert issubclass(kind, mt.MidturnError)
        assert callable(kind.to_json)
    assert mt.Busy.transient is True


def test_stream_yields_the_promised_types() -> None:
    assert {kind.__name__ for kind in mt.Streamed.__args__} == {*OF_A_STREAM.split()}


def asynchronous() -> Iterator[tuple[str, object]]:
    """Yield the names that have to be awaited, entered with `async with`, or iterated with `async
    for`.
    """
    for name in dir(mt):
        value = getattr(mt, name)
        if inspect.isclass(value):
            for method in dir(value):
                function = (
                    inspect.unwrap(getattr(value, method))
                    if callable(getattr(value, method))
                    else None
                )
                if (
                    not method.startswith("_")
                    and not method.endswith("_sync")
                    and _is_asynchronous(function)
                ):
                    yield f"{name}.{method}", value
        elif inspect.iscoroutinefunction(value):
            yield name, mt


def _is_asynchronous(function: object) -> bool:
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return True
    return "AsyncContextManager" in str(getattr(function, "__annotations__", {}).get("return", ""))


def test_whatever_is_async_has_a_sync_form() -> None:
    found = dict(asynchronous())
    without = {
        name for name, home in found.items() if not hasattr(home, f"{name.rpartition('.')[2]}_sync")
    }

    assert without == WITHOUT_A_SYNC_FORM
    assert {
        "Agent.run",
        "Agent.stream",
        "Agent.stream_resume",
        "Agent.aclose",
        "Inquirer.turn",
        "Inquirer.call",
    } <= set(found)
    assert hasattr(mt.ConversationStore, "watch_sync")
    assert {"__enter__", "__aenter__"} <= set(dir(mt.Agent))


def test_answer_types_have_their_wire_names() -> None:
    asked = (
        mt.Question.boolean("a", "A?"),
        mt.Question.select("a", "A?", ["b"]),
        mt.Question.secret("a", "A?"),
        mt.Question.text("a", "A?"),
    )
    assert [question.answer_type.type for question in asked] == [
        "boolean",
        "select",
        "secret",
        "text",
    ]


def test_the_test_kit_has_its_types() -> None:
    names = (
        "run_tool run_tool_sync ToolRunReport ScriptedPrompter MakeScriptedPrompter"
        " MakeScriptedModel RecordedPairs AssertAnswers"
    )
    assert {*names.split()} <= set(dir(midturn.testing))
