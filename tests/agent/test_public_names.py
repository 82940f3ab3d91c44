"""The top-level package: its names, their parameters, and the cost of importing it."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import midturn as mt
from support.processes import output, python

OF_THE_TABLE = """
    Question SelectOption Form AnswerType BooleanType SelectType MultiSelectType TextType SecretType SchemaType Persistence When
    Success ToolError NeedsInput Outcome
    tool Tool Rejected ToolContext Answer Unanswered
    ask ask_sync ask_form ask_form_sync try_ask try_ask_sync try_ask_form try_ask_form_sync
    Agent RunResult TextDelta ModelRetried ToolStarted Asked QuestionAnswered ToolFinished TurnEnded Recorded
    Inquirer
    Prompter TerminalPrompter ScriptedPrompter InboxPrompter Rules
    Answered Deferred Replied WentBack EndedTurn Edited Submitted Unavailable
    Target DetachedPolicy route
    FormWalker
    Conversation ConversationStore open_store MemoryStore events sanitize
    Model ScriptedModel FunctionModel ProviderModel McpServer
    MidturnError ConfigError QuestionError AnswerError DigestMismatch StoreError StoreLocked ModelError AlreadyAnswered NotOpen Suspended
    TurnOpen NotAllowed People Escalation NotAnswered NoSuchQuestion DeadlinePassed PersonNeeded TooOld
    NoConversation
"""
OF_THE_SIGNATURES = """
    UNSET Route UseCached UseConfigured UseDefault AskAssistant AskUser Suspend Fail
    Ask Review Completed Cancelled FormEnded Prompt OpenQuestion
"""
BESIDE_THEM = """
    ask_user FunctionTool ToolRun ToolDefinition ToolCall Source FormAnswers SecretValue Limits Problem CallContent CallEnded InquirerCall
    PersistedQuestion InputPrompter REDACTED HistoryMessage LibraryModel SyncTurnStream TurnUsage
    Streamed TurnStream Receipt StoreChange Busy Reply Step CallSubject ResultSubject FormSubject
    ModelRequest ModelEvent InquiryAsked Finished Part TextPart ReasoningPart StructuredPart ToolCallPart ReasoningDelta Usage channels
"""
"""Names for authors of prompters, tools, models and stores, and for annotations."""

HEAVY = """
    asyncio ssl rich prompt_toolkit click jsonschema_rs tomlkit docstring_parser
    pydantic pydantic_ai httpx anthropic openai mcp starlette
"""
OF_A_PROMPT = """
    question kind asked_by subject index total prefill error can_go_back can_reply may_remember
    id event conversation tool arguments
"""
OF_A_CONTEXT = (
    "answers arguments deps ask ask_sync ask_form ask_form_sync try_ask try_ask_sync"
    " try_ask_form try_ask_form_sync idempotency_key root cancelled"
)


def test_public_names_are_as_listed() -> None:
    expected = {
        *OF_THE_TABLE.split(),
        *OF_THE_SIGNATURES.split(),
        *BESIDE_THEM.split(),
        "__version__",
    }

    assert set(dir(mt)) == expected
    assert all(getattr(mt, name) is not None for name in expected)


def test_a_star_imports_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from midturn import *", names)
    assert {name for name in names if name != "__builtins__"} == {
        name for name in dir(mt) if not name.startswith("_")
    }


def test_type_checkers_see_the_same_names() -> None:
    stub = ast.parse(Path(mt.__file__).with_suffix(".pyi").read_text())
    imported = {
        alias.asname
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    declared = {
        node.target.id
        for node in stub.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }

    assert imported | declared == set(dir(mt))


def test_type_checkers_find_each_name_where_it_is_loaded_from() -> None:
    stub = ast.parse(Path(mt.__file__).with_suffix(".pyi").read_text())
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                assert getattr(
                    __import__(node.module or "", fromlist=[alias.name]), alias.name
                ) is getattr(mt, alias.name)


def test_importing_midturn_loads_no_heavy_modules() -> None:
    code = (
        "import sys; before = set(sys.modules); import midturn;"
        f" print(*sorted(set({HEAVY.split()!r}) & (set(sys.modules) - before)))"
    )
    assert output(python(code)).split() == []
    modules = (
        "import sys; import midturn; print(*(name for name in sys.modules if"
        " name.startswith('midturn.')))"
    )
    assert output(python(modules)).split() == []


def test_an_agent_loads_no_provider_terminal_or_web_code(tmp_path: Path) -> None:
    code = """
import sys, asyncio
import midturn as mt
agent = mt.Agent(mt.ScriptedModel([{"text": "Done."}]), store=mt.open_store(sys.argv[1]))
assert agent.run_sync("Hello").text == "Done."
heavy = {"rich", "prompt_toolkit", "click", "pydantic", "pydantic_ai", "httpx", "mcp", "starlette", "jsonschema_rs", "tomlkit"}
print(*sorted(heavy & set(sys.modules)))
"""
    assert output(python(code, tmp_path)).split() == []


def test_unknown_name_is_an_attribute_error_with_a_suggestion() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'Inquiry'\. Did you mean `Inquirer`\?"):
        _ = mt.Inquiry  # type: ignore[attr-defined]  # that is the point
    assert not hasattr(mt, "__wrapped__")


WRONG = [
    ("midturn", "Questin", "module 'midturn' has no attribute 'Questin'. Did you mean `Question`?"),
    ("midturn.channels", "Signal", "module 'midturn.channels' has no attribute 'Signal'."),
    ("midturn.errors", "NoError", "module 'midturn.errors' has no attribute 'NoError'"),
    ("midturn.testing", "Recorded", "module 'midturn.testing' has no attribute 'Recorded'"),
]


@pytest.mark.parametrize(("module", "name", "message"), WRONG)
def test_a_wrong_name_is_an_attribute_error(module: str, name: str, message: str) -> None:
    assert not hasattr(import_module(module), name)
    with pytest.raises(AttributeError, match=re.escape(message)):
        getattr(import_module(module), name)
    with pytest.raises(ImportError, match="cannot import name"):
        exec(f"from {module} import {name}")


def test_attribute_error_for_a_submodule_says_how_to_import_it() -> None:
    said = (
        "import midturn\ntry:\n    midturn.testing\nexcept AttributeError as error:\n   "
        " print(error)\nfrom midturn import testing"
    )
    assert (
        output(python(said)).strip()
        == "`midturn.testing` is a separate module. Import it with `import midturn.testing`."
    )


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (mt.Agent, "model tools instructions prompter detached routes limits store may_answer"),
        (mt.Agent.run, "self text conversation deps author prompter"),
        (mt.Agent.resume, "self conversation deps"),
        (mt.Inquirer, "conversation prompter detached"),
        (mt.route, "question target cached configured attached detached exclusive"),
        (mt.Question.from_json, "obj"),
        (mt.Question.check, "self value depth_limit"),
        (
            mt.ConversationStore.answer,
            "self id value approve arguments reply cancel reason user via",
        ),
        (mt.Conversation.open, "path"),
        (mt.sanitize, "events"),
        (mt.ScriptedPrompter, "replies unscripted"),
        (mt.Answered, "value reason remember automatic"),
        (mt.Replied, "text"),
        (mt.Ask, "question index total prefill can_go_back"),
        (mt.Review, "answers"),
        (mt.Completed, "answers"),
        (mt.Cancelled, "answered reply"),
    ],
)
def test_signatures_keep_the_promised_parameter_order(function: object, names: str) -> None:
    parameters = list(inspect.signature(function).parameters)  # type: ignore[arg-type]  # they are callable, all of them
    expected = names.split()
    assert [name for name in parameters if name in expected] == expected


def test_prompt_has_the_promised_attributes() -> None:
    assert set(inspect.signature(mt.Prompt).parameters) >= set(OF_A_PROMPT.split())


def test_context_has_the_promised_attributes() -> None:
    assert set(dir(mt.ToolContext)) >= set(OF_A_CONTEXT.split())


def test_importing_common_names_loads_no_asyncio_and_no_turn_machine() -> None:
    heavy = [*HEAVY.split(), "midturn.runtime", "midturn.turn.turn", "midturn.agent.assembly"]
    code = (
        "from midturn import Agent, Question, open_store, tool; import sys;"
        f" print(*sorted(set({heavy!r}) & set(sys.modules)))"
    )

    assert output(python(code)).split() == []
