"""Forms on real terminals and in real files: all kinds of tools, Back, Reply, the review, kill
-9, answers from other interfaces.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import midturn as mt
from midturn.events.types import ToolCallResponse
from midturn.testing.tool_run import recorded_pairs
from support.cli import CommandLine, asks, calls
from support.form_person import FormPerson

APPLY = "Apply the migration?"
ENV = "Which environment?"
WHY = "Why not?"
NOTE = "Any note?"
SEND = "Send these answers?"
MIGRATION: list[dict[str, Any]] = [
    asks("apply", APPLY),
    {
        "id": "env",
        "text": ENV,
        "answer_type": {"type": "select", "options": ["staging", "production"]},
        "when": {"question_id": "apply", "equals": True},
    },
    {
        "id": "why",
        "text": WHY,
        "answer_type": {"type": "text"},
        "when": {"question_id": "apply", "equals": False},
    },
    {"id": "note", "text": NOTE, "answer_type": {"type": "text"}},
]
ASKED_BY_MODEL: list[dict[str, Any]] = [
    {
        **question,
        "answer_type": question["answer_type"]["type"],
        **{k: v for k, v in question["answer_type"].items() if k == "options"},
    }
    for question in MIGRATION
]


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user whose prompts accept keys immediately."""
    command_line = CommandLine(tmp_path)
    command_line.configure("prompt.settle_ms = 0\n")
    command_line.asker()
    return command_line


def inquiries(midturn: CommandLine) -> list[tuple[str, str, Any]]:
    """Return for each inquiry response its ID and the responder with the answer, or the reason
    without an answer.
    """
    responses = [event for event in midturn.events() if event["type"] == "inquiry_response"]
    return [
        (
            (one["id"], one["answered_by"]["by"], one.get("answer"))
            if "answered_by" in one
            else (one["id"], "cancelled", one["reason"])
        )
        for one in responses
    ]


def results(midturn: CommandLine) -> list[Any]:
    """Return what the model read as the results of its calls."""
    return [
        json.loads(event["content"])
        for event in midturn.events()
        if event["type"] == "tool_call_response"
    ]


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "rich"])
def test_command_form_changes_its_questions_after_back(
    midturn: CommandLine, *, plain: bool
) -> None:
    enter = "\r" if plain else ""
    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("deploy", ask=MIGRATION)), "Go", plain=plain
    ) as session:
        person = FormPerson(session, plain=plain)
        person.reply(APPLY, f"y{enter}")
        person.reply(ENV, f"b{enter}")
        person.reply(APPLY, f"n{enter}")
        person.reply(WHY, "too late\r")
        person.reply(NOTE, "none\r")
        assert session.wait_for_end() == 0
        shown = [f"question {n} of 4:" if plain else f"deploy [{n}/4]" for n in (1, 2, 3, 4)]
        assert [session.text.count(header) for header in shown] == [2, 1, 1, 1]

    assert results(midturn) == [{"apply": False, "env": None, "why": "too late", "note": "none"}]
    assert inquiries(midturn) == [
        ("call_1.apply.1", "user", True),
        ("call_1.env.1", "cancelled", "back"),
        ("call_1.apply.2", "user", False),
        ("call_1.why.1", "user", "too late"),
        ("call_1.note.1", "user", "none"),
    ]
    requests = {
        event["id"]: event for event in midturn.events() if event["type"] == "inquiry_request"
    }
    assert requests["call_1.apply.2"]["revises"] == "call_1.apply.1"
    assert [name for name, request in requests.items() if "form" in request] == ["call_1.apply.1"]


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "rich"])
def test_back_at_the_review_edits_the_last_answer_and_enter_sends(
    midturn: CommandLine, *, plain: bool
) -> None:
    enter = "\r" if plain else ""
    model = midturn.script(calls("ask_user", questions=ASKED_BY_MODEL))
    with midturn.on_a_terminal("query", "-m", model, "Go", plain=plain) as session:
        person = FormPerson(session, plain=plain)
        person.reply(APPLY, f"y{enter}")
        person.reply(ENV, f"2{enter}")
        person.reply(NOTE, "slow\r")
        person.look(SEND)
        assert WHY not in person.new
        person.reply(SEND, f"b{enter}")
        person.reply(NOTE, "\r" if plain else "ly\r")
        person.reply(SEND, "\r")
        assert session.wait_for_end() == 0

    assert results(midturn) == [
        {"apply": True, "env": "production", "why": None, "note": "slow" if plain else "slowly"}
    ]
    assert inquiries(midturn)[-2:] == [
        ("call_1.note.1", "user", "slow"),
        ("call_1.note.2", "user", "slow" if plain else "slowly"),
    ]
    assert [event["state"] for event in midturn.events() if event["type"] == "approval"] == [
        "waiting",
        "approved",
    ]


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "rich"])
def test_a_list_of_one_question_draws_the_same_bytes_as_the_single_shape(
    tmp_path: Path, *, plain: bool
) -> None:
    fields = {
        "answer_type": "select",
        "options": ["tape", "disk"],
        "context": "Both are *slow*.",
        "default": "disk",
    }
    drawn: list[bytes] = []
    for name, arguments in {
        "single": {"question": "Where to?", **fields},
        "list": {"questions": [{"id": "where", "text": "Where to?", **fields}]},
    }.items():
        midturn = CommandLine(tmp_path / name)
        midturn.configure("prompt.settle_ms = 0\n")
        with midturn.on_a_terminal(
            "query", "-m", midturn.script(calls("ask_user", **arguments)), "Go", plain=plain
        ) as session:
            FormPerson(session, plain=plain).reply("Where to?", "1\r" if plain else "1")
            assert session.wait_for_end() == 0
            drawn.append(session.raw)

    assert drawn[0] == drawn[1]
    assert b"1/1" not in drawn[0]


def test_one_form_takes_answers_from_configuration_a_person_and_a_model(
    midturn: CommandLine,
) -> None:
    midturn.configure("prompt.settle_ms = 0\n")
    midturn.asker(questions={"apply": {"answer": True}, "note": {"target": "assistant"}})
    reviewed = {
        "tool": "deploy",
        "question": "note",
        "answers": [{"reason": "It says so.", "answer": "at night"}],
    }
    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("deploy", ask=MIGRATION), inquiries=[reviewed]), "Go"
    ) as session:
        person = FormPerson(session)
        person.reply(ENV, "1\r")
        assert session.wait_for_end() == 0
        assert "question 2 of 4:" in session.text
        assert "b Back" not in session.text

    assert results(midturn) == [{"apply": True, "env": "staging", "why": None, "note": "at night"}]
    assert inquiries(midturn) == [
        ("call_1.apply.1", "static", True),
        ("call_1.env.1", "user", "staging"),
        ("call_1.note.1", "assistant", "at night"),
    ]


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "rich"])
def test_reply_keeps_the_typed_text_for_the_next_prompt(
    midturn: CommandLine, *, plain: bool
) -> None:
    """When the model asks again, the person's text is already in the field."""
    questions = [ASKED_BY_MODEL[3], {"id": "who", "text": "Who?", "answer_type": "boolean"}]
    enter = "\r" if plain else ""
    model = midturn.script(
        calls("ask_user", questions=questions), calls("ask_user", questions=questions)
    )
    with midturn.on_a_terminal("query", "-m", model, "Go", plain=plain) as session:
        person = FormPerson(session, plain=plain)
        person.reply(NOTE, "a long story\r")
        person.reply("Who?", f"r{enter}")
        session.wait_for("Your reply")
        session.send("what do you mean?\r")
        person.look(NOTE)
        assert "a long story" in (person.new if plain else session.rows[-2])
        person.reply(NOTE, "\r")
        person.reply("Who?", f"y{enter}")
        person.reply(SEND, "\r")
        assert session.wait_for_end() == 0

    assert results(midturn) == [
        {"cancelled": True, "answered": {"note": "a long story"}, "reply": "what do you mean?"},
        {"note": "a long story", "who": True},
    ]
    assert ("call_1.who.1", "cancelled", "reply") in inquiries(midturn)


GO = mt.Question.boolean("go", "Go?")
PLACE = mt.Question.select("place", "Where?", ["eu-1", "us-2"], when=mt.When("go", equals=True))
WORDS = mt.Question.text("words", "Any words?", optional=True)


@mt.tool
def returns_a_form(ctx: mt.ToolContext) -> object:
    """Ask by returning a form; the next run has the answers."""
    return dict(ctx.answers) if ctx.answers else mt.Form([GO, PLACE, WORDS])


@mt.tool
async def awaits_a_form(ctx: mt.ToolContext) -> object:
    """Ask in a coroutine, which continues with the answers."""
    answers = await ctx.ask_form(mt.Form([GO, PLACE, WORDS]))
    return {"go": answers[GO], "place": answers[PLACE], "words": answers[WORDS]}


@pytest.mark.parametrize("tool", ["returns_a_form", "awaits_a_form"])
def test_a_function_gets_the_answers_of_a_person_and_of_a_model_in_one_form(tool: str) -> None:
    """Back goes over the model's answer to the person's answer before it."""
    said = {
        "tool": tool,
        "question": "place",
        "answers": [{"reason": "It is near.", "answer": "eu-1"}] * 2,
    }
    model = mt.ScriptedModel([calls(tool), {"text": "Done."}], inquiries=[said])
    agent = mt.Agent(
        model, tools=[returns_a_form, awaits_a_form], routes={f"{tool}.place": "assistant"}
    )
    prompter = mt.ScriptedPrompter(
        {f"{tool}.go": [True, True], f"{tool}.words": [mt.WentBack(), None]}
    )

    result = agent.run_sync("Go.", prompter=prompter)

    events = agent.store.read_sync(result.conversation).events
    contents = [
        json.loads(event.content) for event in events if isinstance(event, ToolCallResponse)
    ]
    assert contents == [{"go": True, "place": "eu-1", "words": None}]
    assert [
        (pair.question.split(".")[1], pair.outcome, pair.by or pair.reason)
        for pair in recorded_pairs(events)
    ] == [
        ("go", "answered", "user"),
        ("place", "answered", "assistant"),
        ("words", "cancelled", "back"),
        ("go", "answered", "user"),
        ("place", "answered", "assistant"),
        ("words", "answered", "user"),
    ]
    assert [
        (prompt.question.id, prompt.index, prompt.can_go_back) for prompt in prompter.prompts
    ] == [
        ("go", 1, False),
        ("words", 3, True),
        ("go", 1, False),
        ("words", 3, True),
    ]


def test_ending_the_turn_in_a_form_ends_the_turn(midturn: CommandLine) -> None:
    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("deploy", ask=MIGRATION)), "Go"
    ) as session:
        person = FormPerson(session)
        person.reply(APPLY, "y\r")
        person.reply(ENV, "s\r")
        session.wait_for("Type s again")
        session.send("s\r")
        assert session.wait_for_end() == 130

    assert inquiries(midturn) == [
        ("call_1.apply.1", "user", True),
        ("call_1.env.1", "cancelled", "user"),
    ]
    last = midturn.events()[-1]
    assert (last["type"], last["status"]) == ("turn_end", "ended_by_user")


# Killed processes
# --------------------------------------------------------------------------------------------------


def killed_after_back(midturn: CommandLine) -> None:
    """Leave a form in which Back has opened the first question again, and kill the process."""
    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("deploy", ask=MIGRATION)), "Go"
    ) as session:
        person = FormPerson(session)
        person.reply(APPLY, "y\r")
        person.reply(ENV, "b\r")
        person.look(APPLY)
        person.kill()


def test_form_killed_after_back_continues_at_the_revised_question(midturn: CommandLine) -> None:
    killed_after_back(midturn)

    with midturn.on_a_terminal("resume") as session:
        person = FormPerson(session)
        person.look(APPLY)
        assert "(Enter for y)" in person.new
        person.reply(APPLY, "n\r")
        person.reply(WHY, "too late\r")
        person.reply(NOTE, "none\r")
        assert session.wait_for_end() == 0

    assert results(midturn) == [{"apply": False, "env": None, "why": "too late", "note": "none"}]
    assert [name for name, _, _ in inquiries(midturn)] == [
        "call_1.apply.1",
        "call_1.env.1",
        "call_1.apply.2",
        "call_1.why.1",
        "call_1.note.1",
    ]


def test_answer_command_asks_the_question_reopened_by_back(midturn: CommandLine) -> None:
    """Enter takes the old answer. Dependent questions use the new answer."""
    killed_after_back(midturn)
    (waiting,) = midturn.ok("inbox", "--json").json

    with midturn.on_a_terminal("answer", waiting["id"]) as session:
        person = FormPerson(session)
        person.look(APPLY)
        assert "(Enter for y)" in person.new
        person.reply(APPLY, "n\r")
        person.reply(WHY, "too late\r")
        person.reply(NOTE, "none\r")
        assert session.wait_for_end() == 0

    assert midturn.ok("resume").stdout == "Done.\n"
    assert results(midturn) == [{"apply": False, "env": None, "why": "too late", "note": "none"}]


def test_secret_lost_with_its_process_is_asked_again(midturn: CommandLine) -> None:
    form = [
        {"id": "key", "text": "The passphrase?", "answer_type": {"type": "secret"}},
        MIGRATION[3],
    ]
    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("deploy", ask=form)), "Go"
    ) as session:
        person = FormPerson(session)
        person.reply("The passphrase?", "hunter2\r")
        person.look(NOTE)
        person.kill()

    with midturn.on_a_terminal("resume") as session:
        person = FormPerson(session)
        person.reply(NOTE, "none\r")
        person.reply("The passphrase?", "hunter3\r")
        assert session.wait_for_end() == 0

    assert results(midturn) == [{"key": "[redacted]", "note": "none"}]
    assert "hunter" not in (midturn.conversations()[-1] / "events.jsonl").read_text()
    assert [name for name, _, _ in inquiries(midturn)] == [
        "call_1.key.1",
        "call_1.note.1",
        "call_1.key.2",
    ]


def test_changed_form_asks_only_the_changed_questions(midturn: CommandLine) -> None:
    """The command reads its form from a file that changes while no process runs."""
    form = midturn.root / "form.json"
    script = midturn.root / "ask.py"
    script.write_text(
        "import json, sys\nanswers = json.load(sys.stdin)['tool']['answers']\nform ="
        " json.load(open('form.json'))\ndone = all(q['id'] in answers for q in"
        " form)\nprint(json.dumps({'type': 'success', 'content': json.dumps(answers)} if done else"
        " {'type': 'needs_input', 'questions': form}))\n"
    )
    midturn.configure("prompt.settle_ms = 0\n")
    midturn.asker(command=["python3", "ask.py"])
    form.write_text(json.dumps([MIGRATION[0], MIGRATION[3]]))
    with midturn.on_a_terminal("query", "-m", midturn.script(calls("deploy")), "Go") as session:
        person = FormPerson(session)
        person.reply(APPLY, "y\r")
        person.look(NOTE)
        person.kill()
    form.write_text(json.dumps([MIGRATION[0], {**MIGRATION[3], "text": "A note for whom?"}]))

    with midturn.on_a_terminal("resume") as session:
        person = FormPerson(session)
        person.reply("A note for whom?", "all\r")
        assert session.wait_for_end() == 0
        assert APPLY not in session.text

    assert results(midturn) == [{"apply": True, "note": "all"}]
    assert inquiries(midturn) == [
        ("call_1.apply.1", "user", True),
        ("call_1.note.1", "cancelled", "superseded"),
        ("call_1.note.2", "user", "all"),
    ]


# Other interfaces
# --------------------------------------------------------------------------------------------------


def test_back_works_in_a_review_in_the_inbox(midturn: CommandLine) -> None:
    """The answers are shown once, with the name of the asker. Back asks again at this
    terminal, and the review is shown again.
    """
    questions = [
        asks("apply", APPLY, answer_type="boolean"),
        {**ASKED_BY_MODEL[3], "optional": True},
    ]
    midturn.run(
        "query", "-m", midturn.script(calls("ask_user", questions=questions)), "--defer", "Go"
    )
    for value in ("true", "late"):
        (waiting,) = midturn.ok("inbox", "--json").json
        midturn.ok("answer", waiting["id"], value)
        midturn.run("resume", "--non-interactive")
    (waiting,) = midturn.ok("inbox", "--json").json
    assert (waiting["kind"], waiting["source"]) == ("review", {"source": "assistant"})

    with midturn.on_a_terminal("answer", waiting["id"]) as session:
        person = FormPerson(session)
        person.look(SEND)
        assert session.text.split().count("late") == 1
        person.reply(SEND, "b\r")
        person.reply(NOTE, "soon\r")
        person.reply(SEND, "\r")
        assert session.wait_for_end() == 0

    midturn.ok("resume", waiting["conversation"])
    assert results(midturn) == [{"apply": True, "note": "soon"}]
