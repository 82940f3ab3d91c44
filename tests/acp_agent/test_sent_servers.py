"""MCP servers that an editor sends with a session are used like configured ones, and no program
of a cloned project is started.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from acp import schema

from midturn.config.settings import McpServerSettings
from midturn.integrations.acp.agent import SentServer, sent_servers
from support.acp_editor import Editor, in_process_editor, send_prompt, subprocess_editor
from support.cli import CommandLine, asks, calls
from support.warm_commands import started_by_others

pytestmark = pytest.mark.timeout(600)
PROBE = Path(__file__).parents[1] / "support" / "mcp_server.py"


def stdio(name: str, *command: str, **environment: str) -> schema.McpServerStdio:
    given = [schema.EnvVariable(name=key, value=value) for key, value in environment.items()]
    return schema.McpServerStdio(name=name, command=command[0], args=[*command[1:]], env=given)


def probe(name: str = "probe") -> schema.McpServerStdio:
    return stdio(name, *started_by_others(PROBE))


def turn(midturn: CommandLine, editor: Editor, model: str, *sent: SentServer) -> None:
    """Run one turn in an editor that sends these servers."""

    async def scene() -> None:
        async with in_process_editor(midturn, editor, model):
            session = (
                await editor.agent.new_session(str(midturn.root), mcp_servers=[*sent])
            ).session_id
            assert await send_prompt(editor, session) == "end_turn"

    asyncio.run(scene())


def results(midturn: CommandLine) -> list[str]:
    return [event["content"] for event in midturn.events() if event["type"] == "tool_call_response"]


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


def test_editor_server_calls_need_approval_and_its_questions_are_forms(
    midturn: CommandLine,
) -> None:
    editor = Editor(forms=True)
    editor.choose = lambda asked: "send" if "send" in asked.options else "allow"
    editor.fill = lambda form: {
        key: {"field_1": "us-2", "count": 3, "dry": True}[key] for key in form.schema["properties"]
    }

    turn(midturn, editor, midturn.script(calls("probe_ask")), probe())

    assert results(midturn) == ["accept {'re gion': 'us-2', 'count': 3, 'dry': True}"]
    assert [option for asked in editor.permissions[:1] for option in asked.options] == [
        "allow",
        "allow_in_turn",
        "refuse",
    ]


@pytest.fixture
def address() -> Iterator[str]:
    """A server over streamable HTTP."""
    with subprocess.Popen(
        [sys.executable, "-m", "conformance.server_under_test"],
        cwd=PROBE.parents[1],
        stdout=subprocess.PIPE,
    ) as serving:
        assert serving.stdout
        yield f"http://127.0.0.1:{int(serving.stdout.readline())}/mcp"
        serving.terminate()


def test_a_server_over_http_is_used_as_well(midturn: CommandLine, address: str) -> None:
    editor = Editor(forms=True)
    editor.choose = lambda asked: "send" if "send" in asked.options else "allow"
    editor.fill = lambda form: dict.fromkeys(form.schema["properties"], "Ada")
    sent = schema.HttpMcpServer(name="far", url=address, headers=[], type="http")

    turn(midturn, editor, midturn.script(calls("far_test_input_required_result_elicitation")), sent)

    assert results(midturn) == ["Hello, Ada!"]


def test_a_loaded_session_has_the_servers_that_are_sent_with_it(midturn: CommandLine) -> None:
    editor = Editor()
    editor.choose = lambda _: "allow"
    model = midturn.script({"text": "Good morning."}, calls("probe_echo", a=1))

    async def scene() -> None:
        async with in_process_editor(midturn, editor, model):
            session = (await editor.agent.new_session(str(midturn.root), mcp_servers=[])).session_id
            assert await send_prompt(editor, session) == "end_turn"
            await editor.agent.load_session(str(midturn.root), session, mcp_servers=[probe()])
            assert await send_prompt(editor, session) == "end_turn"

    asyncio.run(scene())
    assert results(midturn) == ["echo: {'a': 1}"]


def test_a_session_of_an_earlier_process_has_the_servers_that_are_sent_with_it_now(
    midturn: CommandLine,
) -> None:
    """This includes a suspended turn: it continues with the servers of this editor only."""
    midturn.asker()
    model = midturn.script(
        calls("deploy", ask=asks()), calls("probe_echo", a=1), calls("other_echo", a=2)
    )
    first, second = Editor(), Editor()
    second.choose = lambda asked: "yes" if "yes" in asked.options else "allow"

    async def scene() -> None:
        async with subprocess_editor(midturn, first, "-m", model):
            sent = [probe("other")]
            session = (
                await first.agent.new_session(str(midturn.root), mcp_servers=sent)
            ).session_id
            turn = asyncio.ensure_future(send_prompt(first, session))
            await first.until(lambda: first.permissions)
            assert first.process
            first.process.kill()
            await asyncio.wait_for(first.process.wait(), 120)
        await asyncio.gather(turn, return_exceptions=True)
        async with in_process_editor(midturn, second, model):
            again = [probe()]
            await second.agent.resume_session(
                cwd=str(midturn.root), session_id=session, mcp_servers=again
            )
            await second.until(lambda: "Done." in second.said())

    asyncio.run(scene())
    _, echo, absent = results(midturn)
    assert echo == "echo: {'a': 1}"
    assert "echo: " not in absent
    assert "other_echo" in absent


@pytest.mark.parametrize("way", ["load_session", "resume_session"])
def test_a_session_that_is_loaded_without_servers_has_none(midturn: CommandLine, way: str) -> None:
    model = midturn.script({"text": "Good morning."}, calls("probe_echo", a=1))

    async def scene() -> None:
        async with in_process_editor(midturn, Editor(), model) as editor:
            sent = [probe()]
            session = (
                await editor.agent.new_session(str(midturn.root), mcp_servers=sent)
            ).session_id
            assert await send_prompt(editor, session) == "end_turn"
            await getattr(editor.agent, way)(
                cwd=str(midturn.root), session_id=session, mcp_servers=[]
            )
            assert await send_prompt(editor, session) == "end_turn"

    asyncio.run(scene())
    (result,) = results(midturn)
    assert "echo: " not in result


def test_resumed_session_starts_no_program_of_a_cloned_project(midturn: CommandLine) -> None:
    script = midturn.root / "server.py"
    script.write_text(f"open({str(midturn.root / 'pwned')!r}, 'w')")
    model = midturn.script({"text": "Good morning."}, {"text": "Good evening."})

    async def scene() -> None:
        async with in_process_editor(midturn, Editor(), model) as editor:
            session = (await editor.agent.new_session(str(midturn.root), mcp_servers=[])).session_id
            assert await send_prompt(editor, session) == "end_turn"
            theirs = [stdio("theirs", sys.executable, str(script))]
            await editor.agent.resume_session(
                cwd=str(midturn.root), session_id=session, mcp_servers=theirs
            )
            assert await send_prompt(editor, session) == "end_turn"
            assert "`theirs` is not used: it would run" in editor.said() + editor.said(
                schema.AgentThoughtChunk
            )

    asyncio.run(scene())
    assert not (midturn.root / "pwned").exists()


def test_configured_server_of_the_same_name_wins(midturn: CommandLine) -> None:
    command = json.dumps(started_by_others(PROBE))
    midturn.configure(
        f"[providers.mcp.probe]\ncommand = {command}\n[conversation.tools.probe_echo]\nsource ="
        " 'mcp'\nrun = 'unattended'\n"
    )

    turn(
        midturn,
        Editor(),
        midturn.script(calls("probe_echo", a=1)),
        stdio("probe", "/no/such/program"),
    )

    assert results(midturn) == ["echo: {'a': 1}"]


def test_unusable_server_is_reported_and_the_turn_continues(midturn: CommandLine) -> None:
    editor = Editor()
    events = schema.SseMcpServer(
        name="events", url="http://127.0.0.1:9/sse", headers=[], type="sse"
    )

    turn(
        midturn,
        editor,
        midturn.script({"text": "Good morning."}),
        stdio("gone", "/no/such/program"),
        events,
    )

    said = editor.said() + editor.said(schema.AgentThoughtChunk)
    assert "Good morning." in said
    assert "The MCP server `gone` cannot be used, so its tools are not available" in said
    assert (
        "The editor's MCP server `events` is not used: the transport sse is not supported; use"
        " stdio or streamable HTTP." in said
    )


def test_no_program_of_a_cloned_project_is_started(midturn: CommandLine) -> None:
    script = midturn.root / "server.py"
    script.write_text(f"open({str(midturn.root / 'pwned')!r}, 'w')")
    editor = Editor()

    turn(
        midturn,
        editor,
        midturn.script({"text": "Good morning."}),
        stdio("theirs", sys.executable, str(script)),
    )

    said = editor.said() + editor.said(schema.AgentThoughtChunk)
    assert "`theirs` is not used: it would run" in said
    assert "run `midturn trust` to approve it" in said
    assert not (midturn.root / "pwned").exists()


def test_editor_servers_can_be_disabled(midturn: CommandLine) -> None:
    async def scene() -> None:
        editor = Editor()
        async with subprocess_editor(
            midturn, editor, "-m", midturn.script(calls("probe_echo")), "--own-servers"
        ):
            session = (
                await editor.agent.new_session(str(midturn.root), mcp_servers=[probe()])
            ).session_id
            assert await send_prompt(editor, session) == "end_turn"

    asyncio.run(scene())
    (result,) = results(midturn)
    assert "probe_echo" in result
    assert "echo: " not in result


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A cloned project with a script and a virtual environment whose interpreter is a link."""
    root = tmp_path / "project"
    (root / "bin").mkdir(parents=True)
    (root / "server.py").write_text("")
    (root / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "link.py").symlink_to(root / "server.py")
    return root


@pytest.mark.parametrize(
    "command",
    [
        ["{root}/server.py"],
        ["./server.py"],
        ["bin/python", "-m", "server"],
        ["{root}/bin/python", "-m", "server"],
        ["python", "server.py"],
        ["python", "{root}/../project/server.py"],
        ["python", "{root}/../link.py"],
        ["node", "--require=./server.py", "index"],
        ["sh", "-c", "true; sh ./server.py"],
        ["env", "NODE_OPTIONS=--require ./server.py", "node"],
    ],
)
def test_a_command_that_names_a_file_of_the_workspace_is_not_run(
    project: Path, command: Sequence[str]
) -> None:
    sent = stdio("theirs", *(word.replace("{root}", str(project)) for word in command))

    found = sent_servers([sent], project)

    assert found.servers == {}
    assert len(found.problems) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LD_PRELOAD", "libc.so.6:./server.py"),
        ("PYTHONSTARTUP", "{root}/server.py"),
        ("NODE_OPTIONS", "--require ./server.py"),
    ],
)
def test_a_variable_that_loads_a_file_of_the_workspace_is_not_passed(
    project: Path, name: str, value: str
) -> None:
    found = sent_servers(
        [
            stdio(
                "theirs",
                "python",
                "-m",
                "http.server",
                **{name: value.replace("{root}", str(project))},
            )
        ],
        project,
    )

    assert found.servers == {}
    assert len(found.problems) == 1


def test_directory_of_the_workspace_is_not_run(project: Path) -> None:
    sent = stdio(
        "files", "npx", "-y", "@modelcontextprotocol/server-filesystem", str(project), KEY="value"
    )

    assert sent_servers([sent], project).servers == {
        "files": McpServerSettings(
            command=("npx", "-y", "@modelcontextprotocol/server-filesystem", str(project)),
            environment={"KEY": "value"},
        )
    }


def test_server_names_are_normalised_and_the_first_duplicate_wins(project: Path) -> None:
    address = schema.HttpMcpServer(
        name="My server!",
        url="https://example.org/mcp",
        headers=[schema.HttpHeader(name="A", value="b")],
        type="http",
    )
    file = schema.HttpMcpServer(name="file", url=f"file://{os.sep}etc", headers=[], type="http")

    found = sent_servers([address, stdio("My server?", "npx", "other"), file], project)

    assert found.servers == {
        "My_server_": McpServerSettings(url="https://example.org/mcp", headers={"A": "b"})
    }
    assert found.problems == [
        "The editor sent two MCP servers named `My_server_`. Only the first one is used.",
        "The editor's MCP server `file` is not used: its URL must start with http:// or https://.",
    ]
