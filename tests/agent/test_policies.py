"""Decisions of a program: configured answers, rules, and policies for detached runs.

None of them is recorded as made by a person.
"""

from __future__ import annotations

import asyncio
import warnings
from typing import Any, Literal, cast

import pytest

import midturn as mt
from midturn.events.types import (
    AnsweredBy,
    Approval,
    InquiryAnswered,
    InquiryRedacted,
    ToolCallRequest,
    ToolCallResponse,
)
from midturn.question.json_value import JsonObject


@mt.tool(run="unattended")
async def deploy(env: str, ctx: mt.ToolContext) -> str:
    """Deploy the service."""
    if not await ctx.ask(mt.Question.boolean("confirm", f"Deploy to {env}?", exclusive=True)):
        raise mt.Rejected("Not deployed.")
    return (
        f"{env} in {await ctx.ask(mt.Question.select('region', 'Which region?', ['eu-1', 'us-2']))}"
    )


@mt.tool(run="ask")
async def shell(cmd: str) -> str:
    """Run a command."""
    return f"ran {cmd}"


@mt.tool(run="unattended")
async def unlock(ctx: mt.ToolContext) -> str:
    """Unlock."""
    return str(len((await ctx.ask(mt.Question.secret("key", "Which key?"))).reveal()))


def of(tool: str, **arguments: Any) -> mt.ScriptedModel:
    """Return a model that calls a tool once."""
    return mt.ScriptedModel(
        [{"calls": [{"name": tool, "arguments": arguments}]}, {"text": "Done."}]
    )


def recorded(agent: mt.Agent, result: mt.RunResult[Any]) -> list[AnsweredBy | None]:
    """Return the responders in order."""
    events = agent.store.read_sync(result.conversation).events
    return [
        event.answered_by
        for event in events
        if isinstance(event, InquiryAnswered | InquiryRedacted | Approval)
    ]


def tool_result(agent: mt.Agent, result: mt.RunResult[Any]) -> str:
    """Return the tool results that the model read."""
    events = agent.store.read_sync(result.conversation).events
    return "\n".join(event.content for event in events if isinstance(event, ToolCallResponse))


# Routes
# --------------------------------------------------------------------------------------------------


def test_routes_accept_configuration_values() -> None:
    routes: dict[str, Any] = {
        "deploy.confirm": {"answer": True},
        "deploy.*": {"answer": "us-2", "exclusive": False},
    }
    agent = mt.Agent(of("deploy", env="staging"), tools=[deploy], routes=routes)
    result = agent.run_sync("Ship it.")
    assert (result.status, tool_result(agent, result)) == ("completed", "staging in us-2")
    assert recorded(agent, result) == [
        AnsweredBy("static", origin="routes['deploy.confirm']"),
        AnsweredBy("static", origin="routes['deploy.*']"),
    ]


def test_a_label_reaches_the_question_that_it_is_for() -> None:
    prompter = mt.ScriptedPrompter({"deploy.confirm": True, "deploy.region": "eu-1"})
    routes = {"deploy.confirm": {"prompt_label": "Release"}}
    mt.Agent(
        of("deploy", env="staging"), tools=[deploy], routes=routes, prompter=prompter
    ).run_sync("Ship it.")
    assert [prompt.label for prompt in prompter.prompts] == ["Release", None]


def test_a_configured_secret_is_redacted() -> None:
    agent = mt.Agent(
        of("unlock"), tools=[unlock], routes={"unlock.key": {"answer": mt.SecretValue("hunter2!")}}
    )
    result = agent.run_sync("Go.")
    assert (tool_result(agent, result), recorded(agent, result)) == (
        "8",
        [AnsweredBy("static", origin="routes['unlock.key']")],
    )


def test_invalid_configured_answer_fails_the_call() -> None:
    agent = mt.Agent(
        of("deploy", env="staging"), tools=[deploy], routes={"deploy.confirm": {"answer": "yes"}}
    )
    result = agent.run_sync("Ship it.")
    assert "does not match the question's answer_type" in tool_result(agent, result)


@pytest.mark.parametrize(
    ("route", "says"),
    [
        (
            {"answers": True, "exclusive": True},
            r"'answers' cannot be combined with 'exclusive'. Did you mean `answer`\?",
        ),
        ({"answer": True, "model": {"id": "x"}}, "settings of an assistant belong in its `target`"),
        ({"exclusive": "yes"}, "Expected `bool"),
        ({"answer": object()}, r"routes\['deploy.confirm'\]\['answer'\]: "),
        ({"target": "asistant"}, "Did you mean `assistant`"),
    ],
)
def test_a_wrong_route_says_what_is_wrong(route: Any, says: str) -> None:
    with pytest.raises(mt.ConfigError, match=says):
        mt.Agent(of("deploy"), tools=[deploy], routes={"deploy.confirm": route})


# Detached
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("detached", "runs", "waits"),
    [
        ({"run": "deny"}, False, ["confirm"]),
        ({"run": "auto", "tool": "deny"}, True, []),
        ({"*": {"run": "auto"}, "deploy": {"tool": "deny"}}, True, []),
        ({"shell": "auto"}, True, ["confirm"]),
        ({"*": "deny", "deploy": "defer"}, False, ["confirm"]),
    ],
)
def test_detached_policy_by_kind_and_by_tool(detached: Any, runs: bool, waits: list[str]) -> None:  # noqa: FBT001
    calls: list[dict[str, Any]] = [
        {"name": "shell", "arguments": {"cmd": "ls"}},
        {"name": "deploy", "arguments": {"env": "staging"}},
    ]
    agent = mt.Agent(
        mt.ScriptedModel([{"calls": calls}, {"text": "Done."}]),
        tools=[shell, deploy],
        detached=detached,
    )
    result = agent.run_sync("Go.")
    assert [question.question_id for question in result.pending] == waits
    assert ("ran ls" in tool_result(agent, result)) is runs


@pytest.mark.parametrize(
    ("detached", "says"),
    [
        ("never", "detached='never': must be one of 'defer'"),
        ({"run": "never"}, r"detached\['run'\]='never': must be one of"),
        (
            {"shell": {"runs": "deny"}},
            r"detached\['shell'\]: 'runs' is not a kind of prompt. Did you mean `run`\?",
        ),
        (
            {"shel": "deny"},
            r"detached\['shel'\]: there is no such kind of prompt or tool. Did you mean `shell`\?",
        ),
        (7, "detached=7: must be one of"),
    ],
)
def test_a_wrong_policy_says_what_is_wrong(detached: Any, says: str) -> None:
    with pytest.raises(mt.ConfigError, match=says):
        mt.Agent(of("shell"), tools=[shell], detached=detached)


# Prompters
# --------------------------------------------------------------------------------------------------


class Always(mt.Prompter):
    """A prompter that acts for a policy of the program."""

    by = "policy"
    name = "always yes"

    def __init__(self, *replies: mt.Reply) -> None:
        self.replies = list(replies)

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        assert prompt.id
        return self.replies.pop(0) if self.replies else mt.Answered(value=True)


def test_a_prompter_that_is_a_policy_is_recorded_as_one() -> None:
    agent = mt.Agent(
        of("deploy", env="staging"),
        tools=[deploy],
        prompter=Always(mt.Answered(value=True), mt.Answered("eu-1")),
    )
    result = agent.run_sync("Ship it.")
    assert recorded(agent, result) == [AnsweredBy("policy", name="always yes")] * 2


def test_refusal_by_a_policy_is_not_reported_as_a_persons_no() -> None:
    no = mt.Answered(value=False, reason="Frozen.")
    asked = mt.Agent(of("deploy", env="staging"), tools=[deploy], prompter=Always(no))
    words = tool_result(asked, asked.run_sync("Ship it."))
    assert words.startswith(
        "The policy 'always yes' rejected the `deploy` call.\n\nQuestion: Deploy to"
        ' staging?\nReason: "Frozen."'
    )
    permitted = mt.Agent(of("shell", cmd="ls"), tools=[shell], prompter=Always(no))
    assert (
        tool_result(permitted, permitted.run_sync("Go."))
        == "shell was not run: the policy 'always yes' does not allow it. Reason: \"Frozen.\""
    )


@pytest.mark.parametrize("reply", [mt.Replied("No."), mt.EndedTurn(), mt.WentBack()])
def test_policy_cannot_reply_like_a_person(reply: mt.Reply) -> None:
    agent = mt.Agent(of("deploy", env="staging"), tools=[deploy], prompter=Always(reply))
    result = agent.run_sync("Ship it.")
    assert result.status == "completed"
    assert (
        f"'always yes' represents a policy, but returned a `{type(reply).__name__}`"
        in tool_result(agent, result)
    )


def test_prompter_acts_for_a_person_or_a_policy() -> None:
    prompter = Always()
    prompter.by = "robot"  # type: ignore[assignment]
    agent = mt.Agent(of("shell", cmd="ls"), tools=[shell], prompter=prompter)
    assert "a prompter represents a 'user' or a 'policy'" in tool_result(
        agent, agent.run_sync("Go.")
    )


def test_interrupted_turn_with_a_policy_answer_resumes() -> None:
    """The recorded answer is used, and no question is asked again."""
    store = mt.MemoryStore()
    first = mt.Agent(
        of("deploy", env="staging"),
        tools=[deploy],
        store=store,
        prompter=Always(mt.Answered(value=True), mt.Unavailable()),
    )
    cut = first.run_sync("Ship it.")
    assert [question.question_id for question in cut.pending] == ["region"]
    second = mt.Agent(
        of("deploy", env="staging"),
        tools=[deploy],
        store=store,
        prompter=mt.ScriptedPrompter({"deploy.region": "us-2"}),
    )
    result = second.resume_sync(cut.conversation)
    assert recorded(second, result) == [AnsweredBy("policy", name="always yes"), AnsweredBy("user")]


# Rules
# --------------------------------------------------------------------------------------------------


def test_rules_answer_by_tool_and_question_and_arguments_and_are_recorded_as_a_policy() -> None:
    rules = mt.Rules(
        {
            "deploy.confirm": [
                {"when": {"env": "prod*"}, "answer": False},
                {"answer": True, "reason": "Not production."},
            ],
            "*.region": {"answer": "eu-1"},
        },
        name="staging only",
    )
    agent = mt.Agent(of("deploy", env="staging"), tools=[deploy], prompter=rules)
    result = agent.run_sync("Ship it.")
    assert tool_result(agent, result) == "staging in eu-1"
    assert recorded(agent, result) == [AnsweredBy("policy", name="staging only")] * 2
    production = mt.Agent(of("deploy", env="production"), tools=[deploy], prompter=rules)
    assert tool_result(production, production.run_sync("Ship it.")).startswith(
        "The policy 'staging only' rejected"
    )


def test_question_without_a_matching_rule_is_detached() -> None:
    agent = mt.Agent(
        of("shell", cmd="rm -r ."),
        tools=[shell],
        prompter=mt.Rules({"shell.__run__": {"when": {"cmd": "ls*"}, "answer": True}}),
    )
    assert agent.run_sync("Go.").status == "suspended"


def test_question_without_a_matching_rule_goes_to_the_fallback_prompter() -> None:
    person = mt.ScriptedPrompter({"deploy.region": "us-2"})
    person.user = "ada"
    agent = mt.Agent(
        of("deploy", env="staging"),
        tools=[deploy],
        prompter=mt.Rules({"deploy.confirm": {"answer": True}}, otherwise=person),
    )
    result = agent.run_sync("Ship it.")
    assert recorded(agent, result) == [
        AnsweredBy("policy", name="rules"),
        AnsweredBy("user", user="ada"),
    ]


def test_star_rule_allows_no_call() -> None:
    agent = mt.Agent(
        of("shell", cmd="ls"),
        tools=[shell],
        prompter=mt.Rules({"*.*": {"answer": True}, "shell.*": {"answer": True}}),
    )
    assert agent.run_sync("Go.").status == "suspended"


@pytest.mark.parametrize(
    ("when", "arguments", "holds"),
    [
        ({"cmd": "git status*"}, {"cmd": "git status --short"}, True),
        ({"cmd": "git *"}, {"cmd": "git status; rm -r ."}, False),
        ({"cmd": "git *"}, {"cmd": "git status\nrm"}, False),
        ({"cmd": "git *"}, {"cmd": "git $(rm)"}, False),
        ({"cmd": "a && b"}, {"cmd": "a && b"}, True),
        ({"cmd": {"matches": "^git (status|log)$"}}, {"cmd": "git log"}, True),
        ({"cmd": {"matches": "^git "}}, {"cmd": "git log | sh"}, False),
        ({"n": {"below": 100}}, {"n": 99}, True),
        ({"n": {"below": 100}}, {"n": 100}, False),
        ({"n": {"below": 100}}, {"n": True}, False),
        ({"n": {"one_of": [1, "a"]}}, {"n": "a"}, True),
        ({"n": 1}, {"n": True}, False),
        ({"n": "1?"}, {"n": 12}, True),
        ({"/to/0/name": "ops*"}, {"to": [{"name": "ops-1"}]}, True),
        ({"/to/1/name": "ops*"}, {"to": [{"name": "ops-1"}]}, False),
        ({"argv": ["git", "s*"]}, {"argv": ["git", "status"]}, True),
        ({"argv": ["git", "s*"]}, {"argv": ["git", "status", "-s"]}, False),
        ({"argv": "git*"}, {"argv": ["git", "status"]}, False),
        ({"cmd": "*", "n": 1}, {"cmd": "ls"}, False),
        ({"nothing": "*"}, {"cmd": "ls"}, False),
        ({"cmd": "*"}, "not an object", False),
    ],
)
def test_conditions_match_arguments(when: dict[str, Any], arguments: Any, holds: bool) -> None:  # noqa: FBT001
    reply = asyncio.run(
        mt.Rules({"t.q": {"when": when, "answer": True}}).prompt(prompt_of(arguments))
    )
    assert isinstance(reply, mt.Answered) is holds


def test_rule_must_opt_in_to_allow_any_text() -> None:
    words = {"cmd": "git status; rm -r ."}
    allowed = mt.Rules({"t.q": {"when": {"cmd": "git *"}, "answer": True, "shell": True}})
    refused = mt.Rules({"t.q": {"when": {"cmd": "git *"}, "answer": False}})
    assert asyncio.run(allowed.prompt(prompt_of(words))) == mt.Answered(value=True)
    assert asyncio.run(refused.prompt(prompt_of(words))) == mt.Answered(value=False)


def prompt_of(arguments: Any) -> mt.Prompt:
    """Return the prompt about a call."""
    return mt.Prompt(question=mt.Question.boolean("q", "Really?"), tool="t", arguments=arguments)


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({"deploy": {"answer": True}}, r"rules\['deploy'\]: the key must be `<tool>.<question>`"),
        ({"t.q": True}, r"rules\['t.q'\]: a rule must be a table, such as `{'answer': True}`"),
        (
            {"t.q": [{"answer": 1}, {"reason": "?"}]},
            r"rules\['t.q'\]\[1\]: Object missing required field `answer`",
        ),
        ({"t.q": {"answer": 1, "if": {}}}, "unknown field `if`"),
        (
            {"t.q": {"answer": 1, "when": {"n": {"above": 1}}}},
            r"when\['n'\]: .*unknown field `above`",
        ),
        ({"t.q": {"answer": 1, "when": {"n": {"below": 1, "one_of": [1]}}}}, "exactly one of"),
        ({"t.q": {"answer": 1, "when": {"n": {"matches": "(?=a)"}}}}, "linear time"),
    ],
)
def test_a_wrong_rule_says_what_is_wrong(rules: Any, says: str) -> None:
    with pytest.raises(mt.ConfigError, match=says):
        mt.Rules(rules)


MISSPELT = (
    r"rules\['shell.__run__'\]: `when` uses the argument 'cmdd', which the tool `shell` does not"
    r" have. Did you mean `cmd`\?"
)


@pytest.mark.parametrize("name", ["cmdd", "/cmdd/0"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_rule_on_an_argument_that_its_tool_does_not_have_is_refused(
    name: str,
    nested: bool,  # noqa: FBT001
) -> None:
    rules: mt.Prompter = mt.Rules(
        {"shell.__run__": [{"answer": False}, {"when": {name: "ls*"}, "answer": True}]}
    )
    prompter = (
        mt.Rules({"other.*": {"answer": 1, "when": {"cmdd": 1}}}, otherwise=rules)
        if nested
        else rules
    )

    with pytest.raises(mt.ConfigError, match=MISSPELT):
        mt.Agent(of("shell", cmd="ls"), tools=[shell], prompter=prompter)


def test_a_rule_on_an_argument_that_its_tool_does_not_have_is_refused_before_a_run_is_recorded() -> (
    None
):
    agent = mt.Agent(of("shell", cmd="ls"), tools=[shell], store=mt.MemoryStore())
    rules = mt.Rules({"shell.__run__": {"when": {"cmdd": "ls*"}, "answer": True}})

    with pytest.raises(mt.ConfigError, match=MISSPELT):
        agent.run_sync("Go.", prompter=rules)
    assert agent.store.ids_sync() == []
    waiting = agent.run_sync("Go.")
    with pytest.raises(mt.ConfigError, match=MISSPELT):
        agent.resume_sync(waiting.conversation, prompter=rules)


def test_rules_for_tools_of_other_agents_are_not_checked() -> None:
    rules = mt.Rules(
        {
            "shell.__run__": {"when": {"cmd": "ls*"}, "answer": True},
            "mail.*": {"when": {"to": "x"}, "answer": True},
        }
    )

    assert (
        mt.Agent(of("shell", cmd="ls"), tools=[shell], prompter=rules).run_sync("Go.").status
        == "completed"
    )


@pytest.mark.parametrize("nested", [False, True])
def test_a_rule_for_a_misspelt_tool_is_reported(nested: bool) -> None:  # noqa: FBT001
    rules: mt.Prompter = mt.Rules({"shel.__run__": {"answer": True}, "*.*": {"answer": False}})
    prompter = mt.Rules({"mail.*": {"answer": 1}}, otherwise=rules) if nested else rules
    says = (
        r"rules\['shel.__run__'\]: the agent has no tool 'shel', so this rule never matches. Did"
        r" you mean `shell`\? Its tools are: `shell`."
    )

    with pytest.warns(UserWarning, match=says) as caught:
        mt.Agent(of("shell", cmd="ls"), tools=[shell], prompter=prompter)
    assert len(caught) == 1


def test_a_rule_for_a_tool_like_one_that_has_rules_is_not_reported() -> None:
    rules = mt.Rules({"shell.__run__": {"answer": True}, "shells.__run__": {"answer": True}})

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mt.Agent(of("shell", cmd="ls"), tools=[shell], prompter=rules)


def test_rules_are_not_reported_while_the_tools_of_servers_are_not_known() -> None:
    rules = mt.Rules({"shel.__run__": {"answer": True}})
    server = mt.McpServer(name="shop", command="shop-server")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mt.Agent(of("shell", cmd="ls"), tools=[shell], prompter=rules, mcp=[server])


def test_a_tool_that_takes_other_arguments_than_it_lists_is_not_checked() -> None:
    class Open:
        definition = mt.ToolDefinition(
            "open", "Open.", {"type": "object", "properties": {"a": {"type": "string"}}}
        )

        async def execute(self, run: mt.ToolRun) -> mt.Outcome:
            raise AssertionError(run)

        def inquiry_source(self) -> mt.Source:
            return mt.Source.tool("open")

    mt.Agent(
        of("shell", cmd="ls"),
        tools=[Open()],
        prompter=mt.Rules({"open.__run__": {"when": {"b": 1}, "answer": True}}),
    )


def test_a_configured_answer_is_used_before_a_rule() -> None:
    agent = mt.Agent(
        of("deploy", env="staging"),
        tools=[deploy],
        routes={"deploy.region": {"answer": "us-2"}},
        prompter=mt.Rules({"deploy.*": {"answer": True}}),
    )
    result = agent.run_sync("Ship it.")
    assert [who.by for who in recorded(agent, result) if who] == ["policy", "static"]


# A function that decides whether a call may run
# --------------------------------------------------------------------------------------------------


def small(
    arguments: JsonObject, context: mt.ToolContext[Any]
) -> Literal["unattended", "ask", "skip"]:
    """Run small payments, ask about large ones, and skip calls without an amount."""
    assert context.arguments == arguments
    amount = arguments["amount"]
    assert isinstance(amount, int)
    return "skip" if amount == 0 else "unattended" if amount < 100 else "ask"


@mt.tool(run=small)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@pytest.mark.parametrize(
    ("amount", "says", "by"),
    [
        (5, "paid 5", [AnsweredBy("policy", name="small")]),
        (
            0,
            "pay was not run: the policy 'small' does not allow it.",
            [AnsweredBy("policy", name="small")],
        ),
        (500, "paid 500", [None, AnsweredBy("user")]),
    ],
)
def test_decision_of_a_function_is_recorded_as_a_policy(
    amount: int, says: str, by: list[AnsweredBy | None]
) -> None:
    agent = mt.Agent(
        of("pay", amount=amount),
        tools=[pay],
        prompter=mt.ScriptedPrompter({"pay.__run__": True}, unscripted="raise"),
    )
    result = agent.run_sync("Go.")
    assert (tool_result(agent, result), recorded(agent, result)) == (says, by)


def test_question_from_a_policy_function_waits_and_the_function_runs_once() -> None:
    agent = mt.Agent(of("pay", amount=500), tools=[pay])
    waiting = agent.run_sync("Go.")
    assert waiting.status == "suspended"
    agent.store.answer_sync(waiting.pending[0].id, approve=True)
    assert tool_result(agent, agent.resume_sync(waiting.conversation)) == "paid 500"


def careless(arguments: JsonObject, context: mt.ToolContext[Any]) -> Literal["unattended", "ask"]:
    """Modify arguments that a policy should only read."""
    for given in (arguments, context.arguments):
        cast("dict[str, Any]", given)["amount"] = 1
    return "unattended" if arguments["amount"] == 1 else "ask"


@mt.tool(run=careless)
async def spend(amount: int, ctx: mt.ToolContext[Any]) -> str:
    """Spend, and write into the arguments, too."""
    cast("dict[str, Any]", ctx.arguments)["amount"] = 2
    return f"spent {amount}"


def test_policy_function_cannot_modify_arguments() -> None:
    agent = mt.Agent(of("spend", amount=500), tools=[spend])
    result = agent.run_sync("Go.")
    assert tool_result(agent, result) == "spent 500"
    assert [
        event.arguments
        for event in agent.store.read_sync(result.conversation).events
        if isinstance(event, ToolCallRequest)
    ] == [{"amount": 500}]


def broken(*_: object) -> float:
    return 1 / 0


def vague(*_: object) -> bool:
    """Return a value that is not a decision."""
    return True


async def later(*_: object) -> str:
    """Return a coroutine, which is not a decision."""
    return "unattended"


@pytest.mark.parametrize("rule", [broken, vague, later])
def test_failing_policy_function_blocks_the_call(rule: Any) -> None:
    tool = mt.tool(name="odd", description="Odd.", run=rule)(_ran)
    agent = mt.Agent(of("odd"), tools=[tool])
    assert agent.run_sync("Go.").status == "suspended"


def _ran() -> str:
    return "ran"


def test_editor_of_a_running_call_is_told_about_a_refusing_rule() -> None:
    """The process that runs the turn evaluates the rules; the edit was submitted to its answer
    queue.
    """

    def by_place(arguments: JsonObject, _: object) -> Any:
        return "skip" if arguments["env"] == "nowhere" else "ask"

    @mt.tool(run=by_place)
    def ship(env: str) -> str:
        return f"shipped to {env}"

    async def played() -> None:
        released = asyncio.Event()

        @mt.tool
        async def wait() -> str:
            await released.wait()
            return "waited"

        store = mt.MemoryStore()
        calls = [{"name": "ship", "arguments": {"env": "test"}}, {"name": "wait"}]
        agent = mt.Agent(
            mt.ScriptedModel([{"calls": calls}, {"text": "Done."}]), tools=[ship, wait], store=store
        )
        running = asyncio.create_task(agent.run("Ship it."))
        async for _ in store.watch():
            if waiting := await store.pending():
                break
        else:
            waiting = []
        with pytest.raises(mt.AnswerError, match="A rule does not allow such a call"):
            await store.answer(waiting[0].id, arguments={"env": "nowhere"}, user="dora")
        await store.answer(waiting[0].id, arguments={"env": "production"}, user="dora")
        released.set()
        result = await running
        responses = [
            event.content
            for event in (await store.read(result.conversation)).events
            if isinstance(event, ToolCallResponse)
        ]
        assert any(response.endswith("shipped to production") for response in responses)

    asyncio.run(played())
