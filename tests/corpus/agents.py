"""The agent whose turns are in the corpus: its tools, and a model that follows the user's text.

It uses the public API only.

The model has no state, so a turn can continue in any process. Each line of the user's text is a
call, such as `confirm {}` or `erase {"path": "a"}`. When the model has the results, it repeats
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import midturn as mt

FAR = datetime(2999, 1, 1, tzinfo=UTC)
"""A deadline far in the future."""
OPS = mt.People(
    ask=["ops"],
    only=True,
    approvals=2,
    members={"ops": ["ana", "bo", "carl"]},
    logins={"ana": ["a.smith"]},
)
TOLD = mt.People(
    ask=["ops"],
    approvals=2,
    remind_after=60,
    escalate=[mt.Escalation(after=120, to=["carl"])],
    members={"ops": ["ana", "bo"]},
)


@mt.tool
async def confirm(ctx: mt.ToolContext, text: str = "Go on?") -> str:
    """Ask yes or no."""
    return (
        "confirmed"
        if await ctx.ask(
            mt.Question.boolean("confirm", text, context="What *should* be known.", exclusive=True)
        )
        else "not"
    )


@mt.tool
async def twice(ctx: mt.ToolContext) -> str:
    """Ask two questions, one after the other."""
    first = await ctx.ask(mt.Question.text("first", "The first?"))
    second = await ctx.ask(mt.Question.text("second", "The second?", optional=True))
    return f"{first} and {second}"


def form() -> mt.Form:
    """A form with every type of answer."""
    return mt.Form(
        [
            mt.Question.text("name", "Name of the release?", default="1.0"),
            mt.Question.select(
                "region",
                "Which region?",
                ["eu-1", mt.SelectOption("us-2", description="far")],
                allow_other=True,
            ),
            mt.Question.multi_select("parts", "Which parts?", ["api", "web", "jobs"]),
            mt.Question.boolean("canary", "A canary first?", default=True),
            mt.Question.text("share", "Its share?", when=mt.When("canary", equals=True)),
            mt.Question.schema(
                "plan",
                "The plan?",
                {
                    "type": "object",
                    "properties": {"steps": {"type": "integer"}},
                    "required": ["steps"],
                },
            ),
        ],
        review=True,
    )


@mt.tool
async def release(ctx: mt.ToolContext) -> str:
    """Ask a form of several questions, which is reviewed."""
    asked = form()
    answers = await ctx.ask_form(asked)
    return json.dumps(
        {question.id: answers[question] for question in asked.questions}, default=vars
    )


@mt.tool
async def sign_in(ctx: mt.ToolContext) -> str:
    """Ask for a secret."""
    token = await ctx.ask(mt.Question.secret("token", "The token?"))
    return "signed in" if token else "no token"


@mt.tool
async def checked(ctx: mt.ToolContext) -> str:
    """Ask again until the answer is even."""
    number = await ctx.ask(
        mt.Question.schema("number", "An even number?", {"type": "integer"}),
        check=lambda value: None if isinstance(value, int) and value % 2 == 0 else "That is odd.",
    )
    return f"{number}"


@mt.tool
async def judged(ctx: mt.ToolContext) -> str:
    """Ask something that a model answers first; its no goes to the user."""
    return "fine" if await ctx.ask(mt.Question.boolean("fine", "Is it fine?")) else "not fine"


@mt.tool
async def by_model(ctx: mt.ToolContext) -> str:
    """Ask something that a model answers."""
    return await ctx.ask(mt.Question.text("word", "Which word?"))


@mt.tool
async def configured(ctx: mt.ToolContext) -> str:
    """Ask something that is answered by the program's settings."""
    return await ctx.ask(mt.Question.text("city", "Which city?"))


@mt.tool
async def soon(ctx: mt.ToolContext, until: str) -> str:
    """Ask something until a moment."""
    answer = await ctx.try_ask(
        mt.Question.boolean("soon", "In time?", deadline=datetime.fromisoformat(until))
    )
    return f"soon: {answer!r}"


@mt.tool(run="ask")
async def erase(path: str) -> str:
    """Erase a file, with permission."""
    return f"erased {path}"


@mt.tool(run="ask")
async def picture() -> str:
    """Return a result that has to be approved as well, where the settings say so."""
    return "a picture"


@mt.tool(run="ask")
async def foretold(ctx: mt.ToolContext, path: str) -> str:
    """Apply a change that the permission shows."""
    return (
        "applied"
        if await ctx.ask(
            mt.Question.boolean("apply", f"Apply the change to {path}?", context="+ a line")
        )
        else "left"
    )


@foretold.previews
def _foretold(ctx: mt.ToolContext, path: str) -> mt.Question[bool]:  # noqa: ARG001
    return mt.Question.boolean("apply", f"Apply the change to {path}?", context="+ a line")


@mt.tool(run=lambda arguments, _: OPS if arguments["env"] == "production" else "unattended")
async def deploy(env: str, size: int = 1) -> str:
    """Deploy; production needs two of ops."""
    return f"{env} is deployed, {size} of it"


@mt.tool(run="skip")
async def never() -> str:
    """Never run."""
    return "ran"


@mt.tool
async def voted(ctx: mt.ToolContext) -> str:
    """Ask a question that two people have to say yes to."""
    return (
        "yes" if await ctx.ask(mt.Question.boolean("sure", "Are you sure?", people=OPS)) else "no"
    )


@mt.tool
async def told(ctx: mt.ToolContext) -> str:
    """Ask a question whose people are told, reminded and joined by others."""
    return (
        "yes"
        if await ctx.ask(mt.Question.boolean("sure", "Are you sure, all of you?", people=TOLD))
        else "no"
    )


@mt.tool
async def fails() -> str:
    """Fail."""
    raise mt.Rejected("Somebody said no.")


@mt.tool
async def hangs() -> str:
    """Take so long that the process was killed meanwhile; the next one is faster."""
    return "it came back"


@mt.tool
async def delegate(text: str) -> str:
    """Let another agent do something."""
    return (await mt.Agent(model(), tools=[confirm, erase, delegate]).run(text)).text


TOOLS = (
    *(
        confirm,
        twice,
        release,
        sign_in,
        checked,
        judged,
        by_model,
        configured,
        soon,
        erase,
        picture,
        foretold,
        deploy,
        never,
        voted,
        told,
    ),
    *(fails, hangs, delegate, mt.ask_user),
)


def model() -> mt.FunctionModel:
    """Return a model that makes the calls named in the user's text."""

    def say(request: mt.ModelRequest) -> Any:
        if request.inquiry is not None:
            return _judged(request)
        last = next(
            event
            for event in reversed(request.events)
            if isinstance(event, mt.events.ChatRequest | mt.events.ToolCallResponse)
        )
        if isinstance(last, mt.events.ToolCallResponse):
            results = [event.content for event in _results_since_message(request.events)]
            return f"Done: {'; '.join(results)}"
        calls = [line.partition(" ") for line in last.content.splitlines() if line[:1].islower()]
        if not calls:
            return [mt.ReasoningPart("Hm."), mt.TextPart("Hello.")]
        made = [
            {"id": f"call_{n}", "name": name, "arguments": json.loads(rest or "{}")}
            for n, (name, _, rest) in enumerate(calls, 1)
        ]
        return {"text": "I do that.", "calls": made}

    return mt.FunctionModel(say, name="example/model")


def _judged(request: mt.ModelRequest) -> Any:
    assert request.inquiry is not None
    answers = {"fine": {"reason": "I am not sure.", "answer": False}, "word": {"answer": "hut"}}
    return answers[request.inquiry.question_id]


def _results_since_message(events: Iterable[mt.events.Event]) -> list[mt.events.ToolCallResponse]:
    found: list[mt.events.ToolCallResponse] = []
    for event in events:
        if isinstance(event, mt.events.ChatRequest):
            found = []
        elif isinstance(event, mt.events.ToolCallResponse):
            found.append(event)
    return found


def agent(store: mt.ConversationStore, prompter: mt.Prompter | None = None) -> mt.Agent:
    return mt.Agent(
        model(),
        tools=TOOLS,
        store=store,
        prompter=prompter,
        routes={
            "judged.fine": "assistant_with_escalation",
            "by_model.word": "assistant",
            "configured.city": {"answer": "Rome"},
        },
    )
