"""Commands that are reserved for a person refuse every process that a tool started."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from support.cli import CommandLine, asks, calls

ROUND = {
    "plainly": "{}",
    "without an environment": "env -i PATH=$PATH HOME=$HOME {variables} {}",
    "in a session of its own": "setsid -w env -i PATH=$PATH HOME=$HOME {variables} {}",
    "after a double fork": (
        "(setsid sh -c 'sleep 0.2; env -i PATH=$PATH HOME=$HOME {variables} {} > out 2>&1; echo $?"
        " > status' &) ; while [ ! -s status ]; do sleep 0.05; done; cat out"
    ),
    "on a terminal of its own": "script -qec '{}' /dev/null < /dev/null",
}


@pytest.fixture
def waiting(midturn: CommandLine) -> str:
    """Return the ID of a question that waits for a person."""
    midturn.asker()
    midturn.run(
        "query",
        "-m",
        midturn.script(calls("deploy", ask=[asks(exclusive=True)])),
        "--defer",
        "Ship it",
    )
    return str(midturn.ok("inbox", "--json").json[0]["id"])


def output_of_tool_command(
    midturn: CommandLine, command: str, way: str, *, program: str = ""
) -> str:
    """Let a tool run a midturn command in one of several ways; return the output of the tool.

    The sandbox is off, because the command could not be found inside it.
    """
    variables = " ".join(
        f"{name}={value}" for name, value in midturn.environment.items() if name.startswith("XDG_")
    )
    shell = (
        ROUND[way]
        .replace("{variables}", variables)
        .replace("{}", program or f"{sys.executable} -m midturn {command}")
    )
    with midturn.config.open("a") as file:
        file.write(
            f"[conversation.tools.try]\ncommand = {json.dumps(shell + ' 2>&1; true')}\nshell ="
            " true\n"
        )
        file.write('run = "unattended"\nsandbox = false\n')
        file.write(
            "environment ="
            f" {json.dumps([name for name in midturn.environment if name.startswith('XDG_')])}\n"
        )
    midturn.ok("query", "-m", midturn.script(calls("try")), "Try it")
    return str(
        next(
            event["content"] for event in midturn.events() if event["type"] == "tool_call_response"
        )
    )


@pytest.mark.parametrize("way", ROUND)
def test_tool_process_may_not_answer(midturn: CommandLine, waiting: str, way: str) -> None:
    printed = output_of_tool_command(midturn, f"answer {waiting} yes", way)

    assert "This process may not answer questions: it was started by" in printed
    assert [question["id"] for question in midturn.ok("inbox", "--json").json] == [waiting]


LIBRARY = """
import sys, midturn
try:
    midturn.open_store(sys.argv[1]).answer_sync(sys.argv[2], True)
except midturn.errors.PersonNeeded as error:
    print(error)
"""


@pytest.mark.parametrize("way", ["plainly", "after a double fork"])
def test_tool_process_may_not_answer_with_the_library(
    midturn: CommandLine, waiting: str, way: str
) -> None:
    (midturn.root / "library.py").write_text(LIBRARY)
    store = midturn.store

    printed = output_of_tool_command(
        midturn, "", way, program=f"{sys.executable} {midturn.root}/library.py {store} {waiting}"
    )

    assert "This process may not answer questions: it was started by" in printed
    assert [question["id"] for question in midturn.ok("inbox", "--json").json] == [waiting]


ENTRY_POINTS = """
import asyncio, sys, midturn
from midturn.events.types import AnsweredBy, Notified
from midturn.stores.store import record_notice
from midturn.inbox.answering_session import StoredVisit
from midturn.testing import ScriptedPrompter

@midturn.tool
async def deploy() -> str:
    "Deploy."
    return "deployed"

async def use(name):
    store = midturn.open_store(sys.argv[1])
    id = sys.argv[2]
    conversation = id.partition("-")[0]
    prompter = ScriptedPrompter()
    agent = midturn.Agent(midturn.ScriptedModel([{"text": "done"}]), tools=[deploy], store=store)
    own = midturn.Agent(midturn.ScriptedModel([{"text": "done"}]), tools=[deploy], store=store, prompter=prompter)
    match name:
        case "run":
            await agent.run("go", prompter=prompter)
        case "an agent's own prompter":
            await own.run("go")
        case "resume":
            await agent.resume(conversation, prompter=prompter)
        case "resume with an agent's own prompter":
            await own.resume(conversation)
        case "stream_resume":
            async with agent.stream_resume(conversation, prompter=prompter):
                pass
        case "secrets":
            await agent.resume(conversation, secrets={id: "s3cret"}, user="ana")
        case "work":
            await asyncio.wait_for(own.work(), 120)
        case "an inquirer":
            async with midturn.Inquirer(store, conversation, prompter=prompter).turn("go"):
                pass
        case "a visit":
            (question,) = await store.pending(conversation)
            turn = (await store.port.look(conversation)).turn.events
            StoredVisit(store, question, turn, AnsweredBy("user", user="ana"))
        case "pass_on":
            await store.reassign(id, ["mallory"], user="ana")
        case "a notice":
            await record_notice(store, id, Notified(id="", about="asked", to=("mallory",)))

for name in sys.argv[3:]:
    try:
        asyncio.run(use(name))
        print(name, "was let through")
    except midturn.errors.PersonNeeded:
        print(name, "was refused")
    except Exception as error:
        print(name, type(error), error)
"""
NAMES = (
    "run",
    "an agent's own prompter",
    "resume",
    "resume with an agent's own prompter",
    "stream_resume",
    "secrets",
    "work",
    "an inquirer",
    "a visit",
    "pass_on",
    "a notice",
)


def test_tool_process_is_refused_by_every_command_that_takes_answers(
    midturn: CommandLine, waiting: str
) -> None:
    (midturn.root / "entry_points.py").write_text(ENTRY_POINTS)
    names = " ".join(f'"{name}"' for name in NAMES)

    printed = output_of_tool_command(
        midturn,
        "",
        "plainly",
        program=(
            f"{sys.executable} {midturn.root}/entry_points.py {midturn.store} {waiting} {names}"
        ),
    )

    assert printed.splitlines() == [f"{name} was refused" for name in NAMES]
    assert [question["id"] for question in midturn.ok("inbox", "--json").json] == [waiting]


def test_tool_process_may_answer_in_its_own_store(midturn: CommandLine) -> None:
    """A program that uses the library is a tool like any other.

    It may answer questions in its own store.
    """
    (midturn.root / "agent.py").write_text(OWN)

    assert (
        output_of_tool_command(
            midturn, "", "plainly", program=f"{sys.executable} {midturn.root}/agent.py"
        ).strip()
        == "answered"
    )


OWN = """
import asyncio, midturn

@midturn.tool
async def ask(ctx: midturn.ToolContext) -> str:
    "Ask."
    return repr(await ctx.ask(midturn.Question.boolean("q", "Really?")))

store = midturn.open_store("own", trusted=True)
agent = midturn.Agent(midturn.ScriptedModel([{"calls": [{"name": "ask"}]}, {"text": "Done."}]), tools=[ask], store=store)
asyncio.run(agent.run("Go"))
store.answer_sync(store.pending_sync()[0].id, True)
print("answered")
"""


def test_agent_with_a_hook_may_not_answer_itself(midturn: CommandLine) -> None:
    """Its subprocesses descend from the process that is recorded in the question."""
    bash = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
    script = (
        'export CLAUDE_PID=$$; {midturn} hook claude < document & while [ "$({midturn} inbox'
        ' --json)" = "[]" ]; do sleep 0.1; done; setsid -w {midturn} answer 1 yes > said 2>&1;'
        " {midturn} inbox --json > inbox; kill $!; wait"
    ).replace("{midturn}", f"{sys.executable} -m midturn")
    document = {
        "session_id": "s",
        "cwd": str(midturn.root),
        "hook_event_name": "PermissionRequest",
        **bash,
    }
    (midturn.root / "document").write_text(json.dumps(document))

    subprocess.run(
        ["/bin/bash", "-c", script],
        cwd=midturn.root,
        env=midturn.environment,
        timeout=120,
        check=False,
        capture_output=True,
    )

    assert (
        "it descends from Claude Code, which asks through midturn"
        in (midturn.root / "said").read_text()
    )
    assert len(json.loads((midturn.root / "inbox").read_text())) == 1


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("trust --yes", "approve files"),
        ("config set conversation.tools.x.run unattended", "change the configuration"),
        ("config set --user conversation.tools.x.run unattended", "change the configuration"),
        ("conversation edit --title x", "edit conversations"),
        ("resume", "continue turns"),
        ("resume --ready", "continue turns"),
    ],
)
def test_tool_process_may_not_approve_configure_or_decide(
    midturn: CommandLine, command: str, what: str
) -> None:
    midturn.workspace_file("")
    (midturn.root / ".midturn" / "config.d").mkdir()
    (midturn.root / ".midturn" / "config.d" / "later.toml").write_text("prompt.bell = true\n")
    before = midturn.config.read_text() if midturn.config.exists() else ""

    printed = output_of_tool_command(midturn, command, "without an environment")

    assert f"This process may not {what}: it was started by" in printed
    assert midturn.config.read_text().startswith(before)
    assert "[conversation.tools.x]" not in midturn.config.read_text()
    assert (midturn.root / ".midturn" / "config.toml").read_text() == ""
