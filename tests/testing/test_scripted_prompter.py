from __future__ import annotations

import asyncio
from typing import Any

import pytest

from midturn.events.prompt import Prompt
from midturn.question.answer_type import BooleanType
from midturn.question.json_value import SecretValue
from midturn.question.question import Question
from midturn.question.reply import Answered, EndedTurn, Replied, Reply, Submitted, Unavailable
from midturn.testing import OutOfScript, ScriptedPrompter

CONFIRM = Prompt(question=Question.boolean("confirm", "Deploy?"), tool="deploy")
REGIONS = Prompt(
    question=Question.multi_select("regions", "Where?", ["eu", "us", "ap"]), tool="deploy"
)


def reply(prompter: ScriptedPrompter, prompt: Prompt = CONFIRM) -> Reply:
    return asyncio.run(prompter.prompt(prompt))


def test_a_value_is_an_answer_and_a_reply_object_is_a_reply() -> None:
    assert reply(ScriptedPrompter({"deploy.confirm": True})) == Answered(True)
    assert reply(ScriptedPrompter({"deploy.confirm": Replied("not now")})) == Replied("not now")
    assert reply(ScriptedPrompter({"deploy.confirm": Answered(False, reason="no")})) == Answered(
        False, reason="no"
    )
    assert reply(ScriptedPrompter({"deploy.confirm": SecretValue("s")})) == Answered(
        SecretValue("s")
    )
    with pytest.raises(OutOfScript, match="is invalid: the answer must be true or false, not null"):
        reply(ScriptedPrompter({"deploy.confirm": None}))


def test_a_list_contains_one_reply_per_prompt() -> None:
    prompter = ScriptedPrompter({"deploy.confirm": [False, Replied("why?"), True]})

    assert [reply(prompter) for _ in range(3)] == [Answered(False), Replied("why?"), Answered(True)]
    prompter.assert_exhausted()


def test_a_list_that_is_a_valid_answer_is_one_answer() -> None:
    assert reply(ScriptedPrompter({"deploy.regions": ["eu", "us"]}), REGIONS) == Answered(
        ["eu", "us"]
    )

    twice = ScriptedPrompter({"deploy.regions": [["eu"], []]})
    assert [reply(twice, REGIONS), reply(twice, REGIONS)] == [Answered(["eu"]), Answered([])]


def test_a_function_replies_to_every_prompt() -> None:
    async def later(prompt: Prompt) -> bool:
        return prompt.question.id == "confirm"

    def at_once(prompt: Prompt) -> bool:
        return prompt.question.id == "confirm"

    for function in (later, at_once):
        prompter = ScriptedPrompter({"deploy.confirm": function})
        assert [reply(prompter), reply(prompter)] == [Answered(True), Answered(True)]
        prompter.assert_exhausted()


def test_approvals_have_their_own_keys_and_a_review_is_submitted() -> None:
    run = Prompt(
        question=Question.unchecked(id="__run__", text="Run deploy?", answer_type=BooleanType()),
        kind="run",
        tool="deploy",
    )
    review = Prompt(
        question=Question.unchecked(
            id="__review__", text="Send these answers?", answer_type=BooleanType()
        ),
        kind="review",
        tool="deploy",
    )

    assert reply(ScriptedPrompter({"deploy.__run__": False}), run) == Answered(False)
    assert reply(ScriptedPrompter(), review) == Submitted()


def test_a_prompt_without_a_reply_fails_the_test() -> None:
    prompter = ScriptedPrompter({"deploy.other": True})

    with pytest.raises(
        OutOfScript, match=r"no reply for `deploy\.confirm`: 'Deploy\?'\. It has: `deploy\.other`\."
    ):
        reply(prompter)
    with pytest.raises(
        AssertionError,
        match=(
            r"prompts without a reply: `deploy\.confirm` .* left over: `deploy\.other` was never"
            r" asked"
        ),
    ):
        prompter.assert_exhausted()


def test_an_answer_is_used_once() -> None:
    prompter = ScriptedPrompter({"deploy.confirm": True})
    reply(prompter)

    with pytest.raises(OutOfScript):
        reply(prompter)


@pytest.mark.parametrize(
    ("unscripted", "expected"), [("unavailable", Unavailable()), ("end_turn", EndedTurn())]
)
def test_unmatched_prompts_can_be_allowed(unscripted: Any, expected: Reply) -> None:
    prompter = ScriptedPrompter(unscripted=unscripted)

    assert reply(prompter) == expected
    prompter.assert_exhausted()


def test_unused_replies_are_counted() -> None:
    prompter = ScriptedPrompter({"deploy.confirm": [True, True, False]})
    reply(prompter)

    with pytest.raises(AssertionError, match=r"`deploy\.confirm` has 2 more"):
        prompter.assert_exhausted()


def test_shown_prompts_are_stored() -> None:
    prompter = ScriptedPrompter({"deploy.confirm": True})
    reply(prompter)

    assert prompter.prompts == [CONFIRM]


def test_an_invalid_list_of_choices_is_reported_as_a_list() -> None:
    zones = Prompt(
        question=Question.multi_select("zones", "Which zones?", ["a", "b"]),
        asked_by="deploy",
        tool="deploy",
    )
    prompter = ScriptedPrompter({"deploy.zones": ["b", "q"]})

    with pytest.raises(OutOfScript, match=r'"q" is not one of the options'):
        reply(prompter, zones)
    with pytest.raises(
        AssertionError,
        match=(
            r'^The scripted prompter: the reply to `deploy\.zones` is invalid: /1: "q" is not one'
            r" of the options"
        ),
    ):
        prompter.assert_exhausted()
    assert reply(ScriptedPrompter({"deploy.zones": [["q"], ["b"]]}), zones) == Answered(["q"])
