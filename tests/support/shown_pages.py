"""Example conversations for screenshots: one question of each kind, a form, approvals, and a
finished conversation.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any
from unittest.mock import patch

import midturn as mt
from midturn.question.question import Question
from midturn.stores.store import ConversationStore
from support.pages import asking, asking_form
from support.schemas import WINDOW

DIFF = """The patch moves the release and says why.

```diff
--- a/docs/plan.md
+++ b/docs/plan.md
@@ -1,4 +1,5 @@
 # Plan

-Ship on Friday.
+Ship on Monday, after the freeze.
+The freeze ends at nine.

 See [the notes](https://example.org/notes).
```
"""
REGIONS = [
    mt.SelectOption("eu-1", "Frankfurt, close to most of our users"),
    mt.SelectOption("us-2", "Ohio, the cheapest"),
    mt.SelectOption("ap-1", "Tokyo, at twice the price"),
]
MIGRATIONS = (
    "Two migrations run first:\n\n1. `add_index`, about three minutes\n2. `drop_column`\n\nThe last"
    " deployment was **four days ago**."
)
LIMITS: Mapping[str, Any] = {
    "type": "object",
    "properties": {"cpu": {"type": "number"}, "memory": {"type": "string"}},
    "required": ["cpu", "memory"],
}
QUESTIONS: Mapping[str, tuple[str, Question[Any]]] = {
    "deploy": (
        "Ship version 2.4",
        Question.boolean(
            "confirm", "Deploy version 2.4 to production?", context=MIGRATIONS, exclusive=True
        ),
    ),
    "place": (
        "Ship version 2.4",
        Question.select(
            "region", "Which region should it go to?", REGIONS, default="eu-1", allow_other=True
        ),
    ),
    "triage": (
        "Find out why the build is slow",
        Question.select(
            "package",
            "Which package has the bug?",
            [f"package-{number:02}" for number in range(1, 41)],
        ),
    ),
    "checks": (
        "Find out why the build is slow",
        Question.multi_select(
            "skip",
            "Which checks may be skipped?",
            ["lint", "types", "unit tests", "browser tests"],
            max=2,
            allow_other=True,
        ),
    ),
    "notes": (
        "Write the release notes",
        Question.text(
            "note", "What should the release note say?", default="Starts faster.", optional=True
        ),
    ),
    "sign": (
        "Sign the release",
        Question.secret("passphrase", "What is the passphrase of the signing key?"),
    ),
    "scale": (
        "Get ready for Monday",
        Question.schema(
            "replicas",
            "How many replicas?",
            {"type": "integer", "minimum": 1, "maximum": 20},
            default=3,
        ),
    ),
    "window": (
        "Plan the maintenance",
        Question.schema("window", "When is the maintenance window?", WINDOW),
    ),
    "limits": ("Get ready for Monday", Question.schema("limits", "Which limits apply?", LIMITS)),
    "edit_plan": (
        "Move the release to Monday",
        Question.boolean("apply", "Apply the changes to docs/plan.md?", default=True, context=DIFF),
    ),
}
FORM = mt.Form(
    [
        Question.boolean("apply", "Prepare a release now?"),
        Question.select(
            "env", "Which environment?", ["staging", "production"], when=mt.When("apply", True)
        ),
        Question.multi_select(
            "teams",
            "Who is told?",
            ["support", "sales", "everybody"],
            min=1,
            when=mt.When("apply", True),
        ),
        Question.text("note", "Anything to add?", optional=True),
    ],
    review=True,
)


@mt.tool(run="ask")
def run_command(command: str, directory: str) -> str:
    """Run a command."""
    return f"{command} in {directory}"


OLD = (
    "def wait(self, seconds):\n    time.sleep(seconds)\n\n\n"
    + "".join(f"RETRY_{n} = {n * 10}\n" for n in range(1, 13))
    + "\n\nLIMIT = 60\n"
)
NEW = OLD.replace("time.sleep(seconds)", "self.clock.sleep(seconds)").replace(
    "LIMIT = 60", "LIMIT = 90"
)


@mt.tool(run="ask")
def edit_file(path: str, old: str, new: str) -> str:
    """Edit a file."""
    return f"{path}: {len(old)} characters, {len(new)} now"


async def open_all(store: ConversationStore) -> dict[str, mt.OpenQuestion]:
    """Ask one question of each kind; return them by the name of the asking tool."""
    opened: dict[str, mt.OpenQuestion] = {}
    tools: list[tuple[str, mt.FunctionTool[..., Any], dict[str, Any]]] = []
    tools += [(said, asking(question, name), {}) for name, (said, question) in QUESTIONS.items()]
    tools.append(("Prepare the release", asking_form(FORM), {}))
    command = {
        "command": "pg_dump --clean shop | gzip > shop.sql.gz\nrm -rf tmp",
        "directory": "/srv/backup",
    }
    tools.append(("Back up the shop", run_command, command))
    tools.append(
        (
            "Wait by the clock of the tests",
            edit_file,
            {"path": "src/retry.py", "old": OLD, "new": NEW},
        )
    )
    for said, tool, arguments in tools:
        agent = mt.Agent(_calling(tool, arguments), tools=[tool], store=store)
        result = await agent.run(said)
        opened[tool.definition.name] = result.pending[0]
    return opened


_DAYS_SHOWN = 30
_PEOPLE = ("ada", "bo", "cleo")
_TOOLS = ("deploy", "refund", "rename")


async def ask_for_a_month(store: ConversationStore) -> None:
    """Record questions and answers for each of the last thirty days, with response times from
    minutes to hours.
    """
    drawn = random.Random(7)
    with patch("midturn.clock.datetime", _Past):
        for day in range(_DAYS_SHOWN, 0, -1):
            for _ in range(drawn.randint(0, 4)):
                tool = drawn.choice(_TOOLS)
                begun = timedelta(days=day) - timedelta(hours=drawn.randint(0, 12))
                _Past.ago = begun
                agent = mt.Agent(
                    _calling(asked := asking(_CONFIRMED[tool], tool), {}),
                    tools=[asked],
                    store=store,
                )
                waiting = (await agent.run(f"Go on with {tool}.")).pending[0]
                _Past.ago = max(
                    timedelta(),
                    begun - timedelta(minutes=drawn.choice((1, 3, 8, 20, 90, 300, 1_500))),
                )
                await store.answer(
                    waiting.id, drawn.random() < _MOSTLY, user=drawn.choice(_PEOPLE), via="web"
                )
                await agent.resume(waiting.conversation)


_MOSTLY = 0.8
_CONFIRMED = {
    "deploy": Question.boolean("confirm", "Deploy to production?"),
    "refund": Question.boolean("confirm", "Pay 40 € back?"),
    "rename": Question.boolean("confirm", "Rename the project?"),
}


class _Past(datetime):
    """A `datetime` whose current time is `ago` in the past."""

    ago = timedelta()

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime.now(tz) - cls.ago


async def finish_one(store: ConversationStore) -> str:
    """Run a turn that asks two questions, answer them, and finish it; return its conversation."""

    @mt.tool
    async def deploy(environment: str, ctx: mt.ToolContext) -> str:
        """Deploy."""
        if not await ctx.ask(
            Question.boolean(
                "confirm", f"Deploy to {environment}?", context="This restarts **three** services."
            )
        ):
            raise mt.Rejected("Not deployed.")
        return (
            f"Deployed to {environment} in"
            f" {await ctx.ask(Question.select('region', 'Which region?', ['eu-1', 'us-2']))}."
        )

    table = "| service | errors |\n| --- | --- |\n| api | 0 |\n| web | 2 |"
    calls = [{"name": "deploy", "arguments": {"environment": "production"}}]
    model = mt.ScriptedModel(
        [
            {"text": "All 214 tests pass. I deploy now.", "calls": calls},
            {"text": f"Version 2.4 is live in **eu-1**. After five minutes:\n\n{table}"},
        ]
    )
    agent = mt.Agent(model, tools=[deploy], store=store)
    result = await agent.run("Ship version 2.4 to production, please.")
    answers: Sequence[tuple[Any, str | None]] = [(True, "The freeze is over."), ("eu-1", None)]
    for value, reason in answers:
        await store.answer(result.pending[0].id, value, user="ada", via="web", reason=reason)
        result = await agent.resume(result.conversation)
    return result.conversation


def _calling(tool: mt.FunctionTool[..., Any], arguments: Mapping[str, Any]) -> mt.ScriptedModel:
    calls = [{"name": tool.definition.name, "arguments": arguments}]
    return mt.ScriptedModel(
        [
            {"text": "I have looked at the pipeline, and need to know one thing.", "calls": calls},
            {"text": "Done."},
        ]
    )
