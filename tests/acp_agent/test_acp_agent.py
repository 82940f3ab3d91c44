"""`midturn acp`: the assistant in an editor, in the same process or as a subprocess."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError, schema

from midturn.stores.opening import open_store
from support.acp_editor import (
    Editor,
    Permission,
    in_process_editor,
    open_session,
    send_prompt,
    subprocess_editor,
)
from support.cli import CommandLine, asks, calls

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user with a home directory, a workspace, and a tool that asks."""
    user = CommandLine(tmp_path)
    user.asker()
    return user


def play(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scene)


def decisions(midturn: CommandLine) -> list[dict[str, Any]]:
    """Return the recorded decisions of the one conversation."""
    return [
        event
        for event in midturn.events()
        if event["type"] == "inquiry_response" or event.get("state", "waiting") != "waiting"
    ]


async def answered(midturn: CommandLine, **how: Any) -> None:
    """Answer the open questions in the inbox, outside the editor."""
    store = open_store(midturn.store)
    async with asyncio.timeout(120):
        async for change in store.watch():
            if change.question:
                await store.answer(change.id, via="inbox", **how)
                return


def test_text_is_streamed_and_a_session_is_a_conversation(midturn: CommandLine) -> None:
    model = midturn.script({"text": "Good morning.", "chunk": 3})

    async def scene() -> None:
        async with in_process_editor(midturn, Editor(), model) as editor:
            session = await open_session(midturn, editor)
            assert await send_prompt(editor, session, "Say hello.") == "end_turn"
            assert editor.said() == "Good morning."
            assert len(editor.updates) == 5
            assert await send_prompt(editor, session, "Again.") == "end_turn"
            assert midturn.conversations()[0].name.startswith(f"{session}-say-hello")

    play(scene())
    assert [event["content"] for event in midturn.events() if event["type"] == "chat_request"] == [
        "Say hello.",
        "Again.",
    ]


@pytest.mark.parametrize(("option", "answer"), [("yes", True), ("no", False)])
def test_a_yes_or_a_no_is_chosen_among_options(
    midturn: CommandLine, option: str, *, answer: bool
) -> None:
    model = midturn.script(calls("deploy", ask=asks()))

    async def scene() -> None:
        editor = Editor()
        editor.choose = lambda _: option
        async with in_process_editor(midturn, editor, model):
            assert await send_prompt(editor, await open_session(midturn, editor)) == "end_turn"
        assert editor.permissions[0].call.title == "Deploy to staging?"
        assert editor.statuses() == ["pending", "in_progress", "in_progress", "completed"]

    play(scene())
    (decided,) = decisions(midturn)
    assert decided["answer"] is answer
    assert decided["answered_by"] == {"by": "user", "via": "acp"}


def test_one_of_several_is_chosen_among_options(midturn: CommandLine) -> None:
    options = [{"value": "prod", "description": "Live"}, "dev"]
    model = midturn.script(
        calls(
            "deploy",
            ask=asks("env", "Where to?", answer_type={"type": "select", "options": options}),
        )
    )

    async def scene() -> None:
        editor = Editor()
        editor.choose = lambda asked: next(
            id for id, option in asked.options.items() if option.name == "dev"
        )
        async with in_process_editor(midturn, editor, model):
            await send_prompt(editor, await open_session(midturn, editor))
        assert [option.name for option in editor.permissions[0].options.values()] == [
            "prod: Live",
            "dev",
        ]

    play(scene())
    assert decisions(midturn)[0]["answer"] == "dev"


def test_client_that_can_only_say_yes_chooses_no_option(midturn: CommandLine) -> None:
    """`acpx` shows no options at a terminal and sends the first option for a yes."""
    model = midturn.script(
        calls(
            "deploy",
            ask=asks(
                "env", "Where to?", answer_type={"type": "select", "options": ["prod", "dev"]}
            ),
        )
    )

    async def scene() -> None:
        editor = Editor(name="acpx")
        editor.choose = lambda asked: next(iter(asked.options))
        async with in_process_editor(midturn, editor, model):
            prompted_turn = asyncio.ensure_future(
                send_prompt(editor, await open_session(midturn, editor))
            )
            await editor.until(lambda: editor.permissions or "midturn answer" in editor.notes())
            await answered(midturn, value="dev")
            assert await prompted_turn == "end_turn"
        assert editor.permissions == []

    play(scene())
    assert [
        (decided["answer"], decided["answered_by"]["via"]) for decided in decisions(midturn)
    ] == [("dev", "inbox")]


@pytest.mark.parametrize(
    ("kind", "content", "answer"),
    [
        ({"type": "boolean"}, True, True),
        ({"type": "select", "options": ["prod", "dev"]}, "dev", "dev"),
        ({"type": "multi_select", "options": ["a", "b", "c"], "min": 1}, ["a", "c"], ["a", "c"]),
        ({"type": "text"}, "because", "because"),
        ({"type": "schema", "schema": {"type": "integer", "minimum": 1}}, 3, 3),
    ],
)
def test_every_question_is_a_form_if_the_editor_supports_forms(
    midturn: CommandLine, kind: dict[str, Any], content: Any, answer: Any
) -> None:
    model = midturn.script(calls("deploy", ask=asks("what", "What now?", answer_type=kind)))

    async def scene() -> None:
        editor = Editor(forms=True)
        editor.fill = lambda _: {"what": content}
        async with in_process_editor(midturn, editor, model):
            assert await send_prompt(editor, await open_session(midturn, editor)) == "end_turn"
        (form,) = editor.elicitations
        assert form.message == "What now?"
        assert list(form.schema["properties"]) == ["what"]

    play(scene())
    assert decisions(midturn)[0]["answer"] == answer


def test_a_whole_form_is_one_form(midturn: CommandLine) -> None:
    form = [
        asks("env", "Where to?", answer_type={"type": "select", "options": ["prod", "dev"]}),
        asks("dry", "Dry run?"),
    ]
    model = midturn.script(calls("deploy", ask=form))

    async def scene() -> None:
        editor = Editor(forms=True)
        editor.fill = lambda _: {"env": "dev", "dry": True}
        async with in_process_editor(midturn, editor, model):
            assert await send_prompt(editor, await open_session(midturn, editor)) == "end_turn"
        assert len(editor.elicitations) == 1

    play(scene())
    assert [decided["answer"] for decided in decisions(midturn)] == ["dev", True]


def test_form_is_asked_question_by_question_without_form_support(midturn: CommandLine) -> None:
    model = midturn.script(
        calls("deploy", ask=[asks("first", "First?"), asks("second", "Second?")])
    )

    async def scene() -> None:
        editor = Editor()
        editor.choose = lambda asked: "yes" if asked.call.title == "First?" else "no"
        async with in_process_editor(midturn, editor, model):
            assert await send_prompt(editor, await open_session(midturn, editor)) == "end_turn"

    play(scene())
    assert [decided["answer"] for decided in decisions(midturn) if "answer" in decided] == [
        True,
        False,
    ]


@pytest.mark.parametrize(("option", "runs"), [("allow", True), ("refuse", False)])
def test_call_follows_the_chosen_option(midturn: CommandLine, option: str, *, runs: bool) -> None:
    midturn.asker("publish", run="ask")
    model = midturn.script(calls("publish", note=str(midturn.root / "ran")))

    async def scene() -> None:
        editor = Editor()
        editor.choose = lambda _: option
        async with in_process_editor(midturn, editor, model):
            assert await send_prompt(editor, await open_session(midturn, editor)) == "end_turn"
        (asked,) = editor.permissions
        assert asked.call.raw_input == {"note": str(midturn.root / "ran")}
        assert [option.kind for option in asked.options.values()] == [
            "allow_once",
            "allow_always",
            "reject_once",
        ]

    play(scene())
    assert (midturn.root / "ran").exists() == runs
    assert decisions(midturn)[0]["answered_by"]["via"] == "acp"


def test_every_call_of_a_tool_is_allowed_for_the_turn(midturn: CommandLine) -> None:
    midturn.asker("publish", run="ask")
    model = midturn.script(calls("publish", say="one"), calls("publish", say="two"))

    async def scene() -> None:
        editor = Editor()
        editor.choose = lambda _: "allow_in_turn"
        async with in_process_editor(midturn, editor, model):
            assert await send_prompt(editor, await open_session(midturn, editor)) == "end_turn"
        assert len(editor.permissions) == 1

    play(scene())


def test_concurrent_calls_are_asked_about_concurrently(midturn: CommandLine) -> None:
    midturn.asker("publish", run="ask")
    both = {
        "calls": [
            {"name": "publish", "arguments": {"say": "one"}},
            {"name": "publish", "arguments": {"say": "two"}},
        ]
    }
    model = midturn.script(both)

    async def scene() -> None:
        editor = Editor()
        met = asyncio.Event()

        async def choose(asked: Permission) -> str:
            if len(editor.permissions) == 2:
                met.set()
            await met.wait()
            return "allow" if "one" in str(asked.call.raw_input) else "refuse"

        editor.choose = choose
        async with in_process_editor(midturn, editor, model):
            assert await send_prompt(editor, await open_session(midturn, editor)) == "end_turn"

    play(scene())
    assert sorted(decided["state"] for decided in decisions(midturn)) == ["approved", "skipped"]


def test_an_answer_from_the_inbox_wins_over_a_dialog_that_is_open(midturn: CommandLine) -> None:
    model = midturn.script(calls("deploy", ask=asks()))

    async def scene() -> None:
        editor = Editor()  # an editor that never answers
        async with in_process_editor(midturn, editor, model):
            turn = asyncio.create_task(send_prompt(editor, await open_session(midturn, editor)))
            await editor.until(lambda: editor.permissions)
            await answered(midturn, value=True)
            assert await turn == "end_turn"

    play(scene())
    assert [decided["answered_by"]["via"] for decided in decisions(midturn)] == ["inbox"]


def test_dialog_stays_open_during_a_reassignment(midturn: CommandLine) -> None:
    midturn.asker("publish", run="ask")
    model = midturn.script(calls("publish", note=str(midturn.root / "ran")))

    async def pass_on(asked: Permission) -> str:
        del asked
        (question,) = (await asyncio.to_thread(midturn.ok, "inbox", "--json")).json
        await asyncio.to_thread(midturn.ok, "answer", question["id"], "--pass-to", "bo")
        await asyncio.sleep(0.5)  # time in which the change could have closed the dialog
        return "allow"

    async def scene() -> None:
        editor = Editor()
        editor.choose = pass_on
        async with in_process_editor(midturn, editor, model):
            assert await send_prompt(editor, await open_session(midturn, editor)) == "end_turn"
        assert len(editor.permissions) == 1

    play(scene())
    assert (midturn.root / "ran").exists()


def test_a_permission_from_the_inbox_wins_over_a_dialog_that_is_open(midturn: CommandLine) -> None:
    midturn.asker("publish", run="ask")
    model = midturn.script(calls("publish", note=str(midturn.root / "ran")))

    async def scene() -> None:
        editor = Editor()
        async with in_process_editor(midturn, editor, model):
            turn = asyncio.create_task(send_prompt(editor, await open_session(midturn, editor)))
            await editor.until(lambda: editor.permissions)
            await answered(midturn, approve=False, reason="Not today.")
            assert await turn == "end_turn"
        assert "Not today." in editor.notes()

    play(scene())
    assert not (midturn.root / "ran").exists()


def test_unsupported_question_waits_in_the_inbox_with_a_message(midturn: CommandLine) -> None:
    model = midturn.script(calls("deploy", ask=asks("why", "Why?", answer_type={"type": "text"})))

    async def scene() -> None:
        editor = Editor()
        async with in_process_editor(midturn, editor, model):
            turn = asyncio.create_task(send_prompt(editor, await open_session(midturn, editor)))
            await editor.until(lambda: "midturn answer" in editor.notes())
            await answered(midturn, value="because")
            assert await turn == "end_turn"
        assert editor.permissions == []

    play(scene())
    assert decisions(midturn)[0]["answer"] == "because"


def test_cancelled_prompt_ends_the_turn_and_its_questions(midturn: CommandLine) -> None:
    midturn.asker("publish", run="ask")
    model = midturn.script(
        {"calls": [*calls("publish")["calls"], *calls("deploy", ask=asks())["calls"]]}
    )

    async def scene() -> None:
        editor = Editor()
        async with in_process_editor(midturn, editor, model):
            session = await open_session(midturn, editor)
            turn = asyncio.create_task(send_prompt(editor, session))
            await editor.until(lambda: len(editor.permissions) == 2)
            await editor.agent.cancel(session)
            assert await turn == "cancelled"
            assert await send_prompt(editor, session, "Again.") == "end_turn"

    play(scene())
    assert [event["status"] for event in midturn.events() if event["type"] == "turn_end"] == [
        "ended_by_user",
        "completed",
    ]


@pytest.mark.parametrize("how", ["hangs up", "is killed"])
def test_question_stays_open_when_the_editor_dies(midturn: CommandLine, how: str) -> None:
    midturn.asker("publish", run="ask")
    both = {
        "calls": [
            *calls("publish", note=str(midturn.root / "ran"))["calls"],
            *calls("deploy", ask=asks())["calls"],
        ]
    }
    model = midturn.script(both)

    async def scene() -> None:
        editor = Editor()
        async with subprocess_editor(midturn, editor, "-m", model):
            session = await open_session(midturn, editor)
            turn = asyncio.create_task(send_prompt(editor, session))
            await editor.until(lambda: len(editor.permissions) == 2)
            assert editor.process
            assert editor.process.stdin
            if how == "hangs up":
                editor.process.stdin.close()
            else:
                editor.process.kill()
            await asyncio.wait_for(editor.process.wait(), 120)
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)

        assert len(midturn.ok("inbox", "--json").json) == 2
        assert decisions(midturn) == []
        await loaded_and_answered(midturn, model, session)

    async def loaded_and_answered(midturn: CommandLine, model: str, session: str) -> None:
        editor = Editor()
        editor.choose = lambda asked: "allow" if "allow" in asked.options else "yes"
        async with in_process_editor(midturn, editor, model):
            await editor.agent.load_session(str(midturn.root), session, [])
            assert editor.said(schema.UserMessageChunk) == "Go"
            await editor.until(lambda: editor.said() == "Done.")

    play(scene())
    assert (midturn.root / "ran").exists()
    assert len(decisions(midturn)) == 2


def test_loaded_conversation_is_replayed(midturn: CommandLine) -> None:
    model = midturn.script(
        {"text": "Let me see.", **calls("deploy", ask=asks())}, {"text": "It is out."}
    )

    async def scene() -> None:
        editor = Editor()
        editor.choose = lambda _: "yes"
        async with in_process_editor(midturn, editor, model):
            session = await open_session(midturn, editor)
            await send_prompt(editor, session, "Deploy it.")

        later = Editor()
        async with in_process_editor(midturn, later, model):
            listed = await later.agent.list_sessions(str(midturn.root))
            assert [(found.session_id, found.title) for found in listed.sessions] == [
                (session, "Deploy it.")
            ]
            await later.agent.load_session(str(midturn.root), session, [])
        assert later.said(schema.UserMessageChunk) == "Deploy it."
        assert later.said() == "Let me see.It is out."
        assert later.statuses() == ["pending", "completed"]
        assert "**Deploy to staging?** true" in later.notes()

        resumed = Editor()
        async with in_process_editor(midturn, resumed, model):
            await resumed.agent.resume_session(session, str(midturn.root))
            assert resumed.updates == []
            assert await send_prompt(resumed, session) == "end_turn"

    play(scene())


def test_attached_files_are_read_by_the_model(midturn: CommandLine) -> None:
    model = midturn.script({"text": "Read."})
    resource = schema.TextResourceContents(uri="file:///notes.txt", text="Buy milk.")
    prompt = [
        schema.TextContentBlock(type="text", text="Look at "),
        schema.EmbeddedResourceContentBlock(type="resource", resource=resource),
        schema.TextContentBlock(type="text", text=" and "),
        schema.ResourceContentBlock(type="resource_link", name="a.py", uri="file:///a.py"),
    ]

    async def scene() -> None:
        async with in_process_editor(midturn, Editor(), model) as editor:
            session = await open_session(midturn, editor)
            await editor.agent.prompt(session, prompt)
            picture = schema.ImageContentBlock(type="image", data="", mime_type="image/png")
            with pytest.raises(RequestError) as refused:
                await editor.agent.prompt(session, [picture])
            assert "can contain text and files" in str(refused.value.data)

    play(scene())
    (asked,) = [event["content"] for event in midturn.events() if event["type"] == "chat_request"]
    assert (
        asked == "Look at [notes.txt](file:///notes.txt) and"
        " [a.py](file:///a.py)\n\nfile:///notes.txt:\n```\nBuy milk.\n```"
    )


# Hostile clients --------------------------------------------------------------------------------
# -------------------------


@pytest.mark.parametrize(
    ("editor", "option"),
    [
        (Editor(reading=0), "yes"),
        (Editor(reading=0), "no"),
        (Editor(), "what nobody offered"),
        (Editor(), None),
        (Editor(name="acpx"), "no"),
    ],
    ids=[
        "a accept_keys_at_once yes",
        "a accept_keys_at_once no",
        "an unknown option",
        "cancelled",
        "a no of a client that says no by itself",
    ],
)
def test_invalid_response_is_no_answer(
    midturn: CommandLine, editor: Editor, option: str | None
) -> None:
    model = midturn.script(calls("deploy", ask=asks()))

    async def scene() -> None:
        editor.choose = lambda _: option
        async with in_process_editor(midturn, editor, model):
            turn = asyncio.create_task(send_prompt(editor, await open_session(midturn, editor)))
            await editor.until(lambda: "midturn answer" in editor.notes())
            assert decisions(midturn) == []
            await answered(midturn, value=True)
            assert await turn == "end_turn"

    play(scene())
    assert [decided["answered_by"]["via"] for decided in decisions(midturn)] == ["inbox"]


@pytest.mark.parametrize(
    ("editor", "said"),
    [
        (Editor(forms=True), {}),
        (Editor(forms=True), {"env": "moon"}),
        (Editor(forms=True), "cancel"),
        (Editor(forms=True, name="acpx"), "decline"),
        (Editor(forms=True, reading=0), {"env": "dev"}),
        (Editor(forms=True, reading=0), "decline"),
    ],
    ids=[
        "an empty form",
        "none of the options",
        "cancelled",
        "declined by itself",
        "accept_keys_at_once",
        "hastily declined",
    ],
)
def test_invalid_form_response_leaves_the_form_open(
    midturn: CommandLine, editor: Editor, said: Any
) -> None:
    model = midturn.script(
        calls(
            "deploy",
            ask=asks(
                "env", "Where to?", answer_type={"type": "select", "options": ["prod", "dev"]}
            ),
        )
    )

    async def scene() -> None:
        editor.fill = lambda _: said
        async with in_process_editor(midturn, editor, model):
            turn = asyncio.create_task(send_prompt(editor, await open_session(midturn, editor)))
            await editor.until(lambda: "midturn answer" in editor.notes())
            assert decisions(midturn) == []
            await answered(midturn, value="prod")
            assert await turn == "end_turn"

    play(scene())
    assert [decided["answered_by"]["via"] for decided in decisions(midturn)] == ["inbox"]


def test_a_form_that_a_person_declines_is_a_reply(midturn: CommandLine) -> None:
    model = midturn.script(calls("deploy", ask=asks("why", "Why?", answer_type={"type": "text"})))

    async def scene() -> None:
        editor = Editor(forms=True)
        editor.fill = lambda _: "decline"
        async with in_process_editor(midturn, editor, model):
            assert await send_prompt(editor, await open_session(midturn, editor)) == "end_turn"

    play(scene())
    assert [decided["reason"] for decided in decisions(midturn)] == ["reply"]


def test_a_second_answer_to_the_same_question_is_ignored(midturn: CommandLine) -> None:
    model = midturn.script(calls("deploy", ask=asks()))

    async def scene() -> None:
        editor = Editor()

        async def choose(_: Permission) -> str:
            await answered(midturn, value=False)  # another user answers first
            return "yes"

        editor.choose = choose
        async with in_process_editor(midturn, editor, model):
            assert await send_prompt(editor, await open_session(midturn, editor)) == "end_turn"

    play(scene())
    assert [decided["answer"] for decided in decisions(midturn)] == [False]


def test_invalid_requests_get_an_error_message(midturn: CommandLine) -> None:
    async def scene() -> None:
        async with in_process_editor(midturn, Editor()) as editor:
            for asked in (
                editor.agent.prompt("none", [schema.TextContentBlock(type="text", text="x")]),
                editor.agent.load_session(str(midturn.root), "1", []),
                editor.agent.new_session("relative", []),
                editor.agent.prompt(await open_session(midturn, editor), []),
            ):
                with pytest.raises(RequestError):
                    await asked
            with pytest.raises(RequestError, match="No model is set"):
                await send_prompt(editor, await open_session(midturn, editor))

    play(scene())


def test_stdout_has_only_the_protocol_and_a_terminal_gets_an_explanation(
    midturn: CommandLine,
) -> None:
    assert midturn.ok("acp", stdin="no json\n").stdout == ""
    terminal = midturn.on_a_terminal("acp")
    terminal.wait_for("Editors start this command")


def test_conversation_of_a_clone_is_no_session(midturn: CommandLine) -> None:
    model = midturn.script({"text": "Never said."})
    directory = midturn.root / ".midturn" / "conversations" / "1700000000000000-innocent"
    directory.mkdir(parents=True)
    (directory / "events.jsonl").write_text(
        '{"timestamp":"2026-01-01T00:00:00Z","type":"turn_start","event_id":"forged000001"}\n'
    )

    async def scene() -> None:
        editor = Editor()
        async with in_process_editor(midturn, editor, model):
            with pytest.raises(RequestError):
                await editor.agent.load_session(str(midturn.root), "1700000000000000", [])

    play(scene())
