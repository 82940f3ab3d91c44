"""`agent.resume(…, secrets=…)` passes a secret from a program's own service to the tool only."""

from __future__ import annotations

from pathlib import Path

import pytest

import midturn as mt

SECRET = "correct horse battery"


@mt.tool
async def sign(ctx: mt.ToolContext) -> str:
    """Sign it."""
    if not await ctx.ask(mt.Question.boolean("sure", "Sign it?")):
        return "no"
    given = await ctx.ask(mt.Question.secret("passphrase", "The passphrase?"))
    return f"{len(given.reveal())} characters"


@mt.tool
async def enrol(ctx: mt.ToolContext) -> str:
    """Ask a form with a secret in the middle."""
    host, token, keep = (
        mt.Question.text("host", "Where?"),
        mt.Question.secret("token", "The token?"),
        mt.Question.boolean("keep", "Keep?"),
    )
    given = await ctx.ask_form(mt.Form([host, token, keep], review=True))
    return f"{given[host]} {len(given[token].reveal())} {given[keep]}"


@mt.tool
async def seal(ctx: mt.ToolContext) -> str:
    """Take a secret, then ask."""
    await ctx.ask(mt.Question.secret("stamp", "The stamp?"))
    return str(await ctx.ask(mt.Question.boolean("sure", "Seal it?")))


@mt.tool
async def choosy(ctx: mt.ToolContext) -> str:
    """Take one secret alone."""
    question = mt.Question.secret("code", "The code?")
    given = await ctx.ask(
        question, check=lambda code: None if code.reveal() == SECRET else "That is not the code."
    )
    return f"{len(given.reveal())} characters"


def waiting(place: Path, tool: str) -> tuple[mt.Agent[None], mt.RunResult]:
    """Return an agent on a file store and the suspended result."""
    store = mt.open_store(place)

    def agent() -> mt.Agent[None]:
        return mt.Agent(
            mt.ScriptedModel([{"calls": [{"name": tool}]}, {"text": "Done."}]),
            tools=[sign, enrol, seal, choosy],
            store=store,
        )

    return agent(), agent().run_sync("Go.")


def delivered(agent: mt.Agent[None], conversation: str) -> list[str]:
    """Return the tool results that the model read."""
    events = agent.store.read_sync(conversation).events
    return [event.content for event in events if isinstance(event, mt.events.ToolCallResponse)]


def test_secret_reaches_its_tool_and_is_not_stored(tmp_path: Path) -> None:
    agent, first = waiting(tmp_path, "sign")
    agent.store.answer_sync(first.pending[0], True)
    second = agent.resume_sync(first.conversation)
    (question,) = second.pending
    with pytest.raises(mt.AnswerError, match=r"agent\.resume\(…, secrets=\{id: …\}\)"):
        agent.store.answer_sync(question, SECRET)

    done = agent.resume_sync(first.conversation, secrets={question.id: SECRET}, user="ada")

    assert (done.status, delivered(agent, done.conversation)) == (
        "completed",
        [f"{len(SECRET)} characters"],
    )
    (redacted,) = [
        e
        for e in agent.store.read_sync(done.conversation).events
        if isinstance(e, mt.events.InquiryRedacted)
    ]
    assert redacted.answered_by == mt.events.AnsweredBy("user", via="api", user="ada")
    assert not any(
        SECRET.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()
    )


def test_form_with_a_secret_is_answered(tmp_path: Path) -> None:
    agent, first = waiting(tmp_path, "enrol")
    (question,) = first.pending

    given = {"host": "eu-1", "token": mt.SecretValue(SECRET), "keep": True}
    done = agent.resume_sync(first.conversation, secrets={question.id: given})

    assert (done.status, delivered(agent, done.conversation)) == (
        "completed",
        [f"eu-1 {len(SECRET)} True"],
    )


def test_secret_rejected_by_the_tool_is_asked_again_with_the_reason(tmp_path: Path) -> None:
    agent, first = waiting(tmp_path, "choosy")
    again = agent.resume_sync(first.conversation, secrets={first.pending[0].id: "guess"})

    assert again.status == "suspended"
    done = agent.resume_sync(first.conversation, secrets={again.pending[0].id: SECRET})
    assert delivered(agent, done.conversation) == [f"{len(SECRET)} characters"]


def test_remaining_questions_go_to_the_prompter(tmp_path: Path) -> None:
    agent, first = waiting(tmp_path, "seal")
    person = mt.ScriptedPrompter({"seal.sure": True})

    done = agent.resume_sync(
        first.conversation, secrets={first.pending[0].id: SECRET}, prompter=person
    )

    assert (done.status, delivered(agent, done.conversation)) == ("completed", ["True"])


def test_next_question_without_a_prompter_is_suspended(tmp_path: Path) -> None:
    agent, first = waiting(tmp_path, "seal")

    again = agent.resume_sync(first.conversation, secrets={first.pending[0].id: SECRET})

    assert [question.question_id for question in again.pending] == ["sure"]


@pytest.mark.parametrize(
    ("tool", "given", "says"),
    [
        ("sign", "x", "is not a secret; use `store.answer`"),
        ("enrol", "x", "is a form; pass an answer for each"),
        ("enrol", {"host": "x"}, "contains no secret"),
        ("enrol", {"host": "x", "token": ""}, "/token: must be a string that is not empty"),
        ("choosy", "", "must be a string that is not empty"),
        ("choosy", 7, "must be a string that is not empty"),
        ("choosy", {"code": "x"}, "is a single question; pass its secret as a string"),
    ],
)
def test_unknown_secret_is_refused_before_the_turn_resumes(
    tmp_path: Path, tool: str, given: object, says: str
) -> None:
    agent, first = waiting(tmp_path, tool)
    before = agent.store.read_sync(first.conversation).events

    with pytest.raises(mt.AnswerError, match=says):
        agent.resume_sync(first.conversation, secrets={first.pending[0].id: given})  # type: ignore[dict-item]  # that is the point

    assert agent.store.read_sync(first.conversation).events == before


def test_unknown_question_is_named_in_the_error(tmp_path: Path) -> None:
    agent, first = waiting(tmp_path, "choosy")
    with pytest.raises(mt.NoSuchQuestion):
        agent.resume_sync(first.conversation, secrets={f"{first.conversation}-nothing": SECRET})
    (question,) = first.pending
    agent.resume_sync(first.conversation, secrets={question.id: SECRET})
    with pytest.raises(mt.AlreadyAnswered):
        agent.resume_sync(first.conversation, secrets={question.id: SECRET})


def test_user_who_may_not_answer_cannot_give_a_secret(tmp_path: Path) -> None:
    store = mt.open_store(tmp_path)
    model = mt.ScriptedModel([{"calls": [{"name": "choosy"}]}, {"text": "Done."}])
    agent = mt.Agent(
        model, tools=[choosy], store=store.with_authorizer(lambda _, user: user == "ada")
    )
    first = agent.run_sync("Go.")

    with pytest.raises(mt.NotAllowed):
        agent.resume_sync(first.conversation, secrets={first.pending[0].id: SECRET}, user="mallory")
    assert (
        agent.resume_sync(
            first.conversation, secrets={first.pending[0].id: SECRET}, user="ada"
        ).status
        == "completed"
    )


def test_resume_with_secrets_can_be_streamed(tmp_path: Path) -> None:
    agent, first = waiting(tmp_path, "choosy")
    with agent.stream_resume_sync(
        first.conversation, secrets={first.pending[0].id: SECRET}
    ) as events:
        seen = [*events]

    assert isinstance(seen[-1], mt.TurnEnded)
    assert SECRET not in repr(seen)
