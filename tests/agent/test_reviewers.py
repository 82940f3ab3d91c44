"""Reviewers in `routes`: a model object or a model ID answers instead of the author.

Mistakes are errors when the agent is created.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

import midturn as mt
from midturn.events.types import InquiryAnswered
from support.agents import careful

SCRIPT = """
[[inquiries]]
tool = "*"
question = "*"
answers = [{ reason = "It is late.", answer = false }]
"""


def author(request: mt.ModelRequest) -> dict[str, Any]:
    """Call the tool, approve everything that it asks, and end the turn."""
    if request.inquiry is not None:
        return {"answer": True, "reason": "I wrote it."}
    return (
        {"text": "Done."}
        if isinstance(request.events[-1], mt.events.ToolCallResponse)
        else {"calls": [{"name": "careful"}]}
    )


def reviewer(name: str = "function") -> mt.FunctionModel:
    return mt.FunctionModel(lambda _: {"answer": False, "reason": "It is late."}, name=name)


def installed(family: str) -> bool:
    return bool(family)


def answers(agent: mt.Agent) -> Sequence[tuple[object, str | None, str | None]]:
    """Run the agent; return the answers, each with its model and its reason."""
    result = agent.run_sync("Ask")
    found = [
        event
        for event in agent.store.read_sync(result.conversation).events
        if isinstance(event, InquiryAnswered)
    ]
    return [
        (one.answer, one.answered_by.model if one.answered_by else None, one.reason)
        for one in found
    ]


def routed(to: Any, **more: Any) -> mt.Agent:
    return mt.Agent(
        mt.FunctionModel(author), tools=[careful], routes={"careful.confirm": to}, **more
    )


FORMS: list[Callable[[mt.Model], Any]] = [
    lambda model: model,
    lambda model: mt.Target("assistant", cast("Any", model)),
    lambda model: mt.Target("assistant", {"model": model}),
    lambda model: {"model": model},
    lambda model: {"model": {"id": model}},
    lambda model: {"target": model},
    lambda model: {"target": {"model": model, "system_prompt": "Be strict."}},
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["function", "test/strict"])
def test_a_model_object_answers_instead_of_the_author(
    form: Callable[[mt.Model], Any], name: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent = routed(form(reviewer(name)))

    assert answers(agent) == [(False, name, "It is late.")]


def test_two_model_objects_of_one_name_answer_their_own_questions() -> None:
    @mt.tool
    async def twice(ctx: mt.ToolContext) -> str:
        """Ask two questions."""
        first = await ctx.ask(mt.Question.boolean("first", "First?"))
        return f"{first} {await ctx.ask(mt.Question.boolean('second', 'Second?'))}"

    yes = mt.FunctionModel(lambda _: {"answer": True, "reason": "Fine."})
    model = mt.ScriptedModel([{"calls": [{"name": "twice"}]}, {"text": "Done."}])
    agent = mt.Agent(model, tools=[twice], routes={"twice.first": yes, "twice.second": reviewer()})

    assert [answer for answer, _, _ in answers(agent)] == [True, False]


def test_a_rejection_by_a_model_object_escalates() -> None:
    for form in (
        mt.Target("assistant_with_escalation", {"model": reviewer()}),
        {"model": reviewer(), "escalation": True},
        mt.Target("assistant", {"model": reviewer(), "escalation": True}),
    ):
        person = mt.ScriptedPrompter({"careful.confirm": True})
        assert answers(routed(form, prompter=person)) == [
            (False, "function", "It is late."),
            (True, None, None),
        ]
        assert len(person.prompts) == 1


def test_an_id_names_a_reviewer(tmp_path: Path) -> None:
    (tmp_path / "review.toml").write_text(SCRIPT)
    id = f"scripted:{tmp_path / 'review.toml'}"

    for form in ({"model": id}, {"model": {"id": id}}, mt.Target("assistant", {"model": id})):
        assert answers(routed(form)) == [(False, "scripted", "It is late.")]


def test_a_self_hosted_model_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midturn.models.registry.is_installed", installed)
    local = mt.ProviderModel("ollama/qwen3", base_url="http://127.0.0.1:1/v1", max_retries=0)

    # no server listens there: the model call fails, and the author does not answer
    assert answers(routed(local, detached="deny")) == []


def test_an_inquirer_takes_a_model_object() -> None:
    store = mt.MemoryStore()

    async def scene() -> mt.Answer[bool] | mt.Unanswered:
        conversation = await store.new("their loop")
        inquirer = mt.Inquirer(store, conversation, routes={"deploy.sure": reviewer()})
        async with inquirer.turn("Ship it"), inquirer.call("deploy", "call_1") as call:
            return await call.try_ask(mt.Question.boolean("sure", "Sure?"))

    assert asyncio.run(scene()) == mt.Answer(value=False, reason="It is late.", by="assistant")


@pytest.mark.parametrize(
    ("to", "says"),
    [
        (
            mt.Target("assistant", {"modl": {"id": "a/b"}}),
            "`modl` is unknown. Did you mean `model`. Allowed are `model`, ",
        ),
        ({"model": {"idd": "a/b"}}, r"\['model'\]: `idd` is unknown. Did you mean `id`"),
        ({"model": {"id": ""}}, r"\['model'\]\['id'\]: the id of the model is empty"),
        ({"model": " "}, r"\['model'\]: the id of the model is empty"),
        ({"model": {}}, r"\['model'\]: `id` is missing"),
        ({"model": {"parameters": {"seed": 7}}}, r"\['model'\]: `id` is missing.*`inherit`"),
        (mt.Target("assistant", {"model": {}}), r"\['model'\]: `id` is missing"),
        ({"model": {"id": 7}}, "`int`"),
        ({"model": 7}, "not a `int`"),
        ({"model": mt.FunctionModel}, "not the class `FunctionModel`"),
        (mt.FunctionModel, "not the class `FunctionModel`"),
        ({"model": {"id": "x/y"}}, "Unknown provider `x`"),
        ({"model": "qwen"}, "`qwen` is not a model id"),
        ({"model": "openai/text-embedding-3-small"}, "it does not generate text"),
        ({"model": "scripted:missing.toml"}, "missing.toml"),
        ("anthropic/claude-haiku-4-5", r"write `\{'model': 'anthropic/claude-haiku-4-5'\}`"),
        ("scripted:review.toml", r"write `\{'model': 'scripted:review.toml'\}`"),
        (
            mt.Target("assistant", "scripted:review.toml"),  # type: ignore[arg-type]
            "the settings of an assistant must be a table",
        ),
        (mt.Target("assistent"), "Did you mean `assistant`"),  # type: ignore[arg-type]
        (
            mt.Target("user", {"model": {"id": "inherit"}}),
            "the target `user` has no assistant settings",
        ),
        (
            mt.Target("assistant_with_escalation", {"escalation": False}),
            "but `escalation` is false",
        ),
        ({"escalation": "yes"}, "bool"),
        ({"request": {"cahce": "off"}}, r"\['request'\]: `cahce` is unknown. Did you mean `cache`"),
        ({"request": {"cache": "now"}}, "'now': it must be `off`"),
        ({"request": {"max_retries": -1}}, "is -1: it must be a number from 0 to 100"),
    ],
)
def test_a_reviewer_that_does_not_exist_is_an_error_when_the_agent_is_made(
    to: Any, says: str
) -> None:
    with pytest.raises(mt.ConfigError, match=rf"^routes\['careful.confirm'\].*{says}"):
        routed(to)
    with pytest.raises(mt.ConfigError, match=rf"^routes\['careful.confirm'\].*{says}"):
        mt.Inquirer(
            mt.MemoryStore(), "1", routes={"careful.confirm": to}, model=mt.FunctionModel(author)
        )


def test_a_missing_key_is_an_error_when_the_agent_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)

    with pytest.raises(
        mt.ConfigError, match=r"(?s)^routes\['careful.confirm'\]: .*ANTHROPIC_API_KEY"
    ):
        routed({"model": "anthropic/claude-haiku-4-5"})


def test_the_author_as_its_own_reviewer_is_warned_about_once() -> None:
    main = mt.FunctionModel(author)
    forms: list[Any] = [
        "assistant",
        "assistant_with_escalation",
        {"escalation": True},
        {"model": "inherit"},
        main,
        {"model": main},
    ]
    for to in forms:
        with pytest.warns(
            UserWarning,
            match=r"`routes\['careful.confirm'\]`: the main model `function` reviews its own calls",
        ) as caught:
            agent = mt.Agent(
                main,
                tools=[careful],
                routes={"careful.confirm": to, "careful.*": "user"},
                detached="deny",
            )
        assert len(caught) == 1
        assert caught[0].filename == __file__
        assert answers(agent) == [(True, "function", "I wrote it.")]


def test_the_same_model_of_the_same_provider_is_warned_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("midturn.models.registry.is_installed", installed)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    same = "anthropic/claude-haiku-4-5"
    for main, to in [
        (same, {"model": same}),
        (same, mt.ProviderModel(same)),
        (mt.ProviderModel(same), {"model": {"id": same}}),
    ]:
        with pytest.warns(UserWarning, match=rf"the main model `{same}` reviews its own calls"):
            mt.Agent(main, tools=[careful], routes={"careful.confirm": to})


def test_the_error_of_a_reviewer_is_logged_and_not_shown_to_the_person(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def away(_: mt.ModelRequest) -> dict[str, Any]:
        raise mt.ModelError(
            "connection refused at 10.0.0.7:8080; check `reviewer.internal`", status=502
        )

    prompter = mt.ScriptedPrompter({"careful.confirm": True})
    agent = routed(
        mt.Target("assistant_with_escalation", cast("Any", mt.FunctionModel(away, name="guard"))),
        prompter=prompter,
    )

    result = agent.run_sync("Ask")

    assert result.status == "completed"
    (prompt,) = prompter.prompts
    assert (
        prompt.question.context
        == "The assistant that was asked first could not answer. The decision is yours."
    )
    (record,) = [record for record in caplog.records if record.name == "midturn.models"]
    assert (
        record.getMessage()
        == "`guard` gave no answer to `careful.confirm`: connection refused at 10.0.0.7:8080;"
        f" check `reviewer.internal` (conversation {result.conversation})"
    )
