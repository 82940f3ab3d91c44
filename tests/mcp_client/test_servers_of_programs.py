"""MCP servers configured by a program's agent.

They are started for a run, their calls need approval as usual, and they are stopped after
the run.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import midturn as mt
from support.hooks import until
from support.warm_commands import started_by_others

SERVER = Path(__file__).parents[1] / "support" / "mcp_server.py"
pytestmark = pytest.mark.timeout(600)


def probe(place: Path, **fields: Any) -> mt.McpServer:
    """Return the description of the server `probe`, which runs in `place`."""
    described: dict[str, Any] = {
        "name": "probe",
        "command": [*started_by_others(SERVER), "modern"],
        "cwd": place,
        "sandbox": False,
        "environment": dict(os.environ),
    }
    return mt.McpServer(**described | fields)


def calling(*tools: str, **arguments: Any) -> mt.ScriptedModel:
    """Return a model that calls the tools one after the other in each turn."""
    return mt.ScriptedModel(
        [
            *({"calls": [{"name": tool, "arguments": arguments}]} for tool in tools),
            {"text": "Done."},
        ]
        * 3
    )


def results(agent: mt.Agent, conversation: str) -> list[str]:
    """Return the tool results of a conversation."""
    return [
        event.content
        for event in agent.store.read_sync(conversation).events
        if isinstance(event, mt.events.ToolCallResponse)
    ]


def process_ids_in(place: Path) -> list[int]:
    """Return the IDs of the processes that run in a directory."""
    found: list[int] = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            if (process / "cwd").resolve() == place.resolve():
                found.append(int(process.name))
        except OSError:  # the process has ended, or belongs to another user
            continue
    return found


def test_a_server_brings_its_tools_and_is_stopped_after_the_run(tmp_path: Path) -> None:
    agent = mt.Agent(
        calling("probe_echo", a=1), mcp=[probe(tmp_path, run="unattended")], store=mt.MemoryStore()
    )

    result = agent.run_sync("Go")

    assert result.status == "completed", result.error
    assert results(agent, result.conversation) == ["echo: {'a': 1}"]
    until(lambda: process_ids_in(tmp_path), lambda found: not found)


def test_a_server_in_a_sandbox_works(tmp_path: Path) -> None:
    server = mt.McpServer(
        name="probe",
        command=[sys.executable, str(SERVER), "modern"],
        cwd=tmp_path,
        run="unattended",
    )
    agent = mt.Agent(calling("probe_echo", a=1), mcp=[server], store=mt.MemoryStore())

    assert results(agent, agent.run_sync("Go").conversation) == ["echo: {'a': 1}"]


def test_a_tool_of_a_server_needs_approval_by_default(tmp_path: Path) -> None:
    prompter = mt.ScriptedPrompter({"probe_echo.__run__": True})
    server = probe(tmp_path, run={"fail": "unattended"})
    agent = mt.Agent(
        calling("probe_echo", "probe_fail"), mcp=[server], prompter=prompter, store=mt.MemoryStore()
    )

    assert results(agent, agent.run_sync("Go").conversation) == ["echo: {}", "It does not work."]
    prompter.assert_exhausted()


def test_an_approval_waits_and_a_later_run_continues_the_turn(tmp_path: Path) -> None:
    agent = mt.Agent(calling("probe_echo", a=1), mcp=[probe(tmp_path)], store=mt.MemoryStore())

    waiting = agent.run_sync("Go")
    assert waiting.status == "suspended"
    (question,) = waiting.pending
    assert (question.tool, question.kind) == ("probe_echo", "run")
    until(lambda: process_ids_in(tmp_path), lambda found: not found)
    agent.store.answer_sync(question, True)

    assert agent.resume_sync(waiting.conversation).status == "completed"
    assert results(agent, waiting.conversation) == ["echo: {'a': 1}"]


def test_a_question_of_a_server_is_a_form_of_its_tool(tmp_path: Path) -> None:
    prompter = mt.ScriptedPrompter(
        {"probe_ask.field_1": "us-2", "probe_ask.count": None, "probe_ask.dry": False}
    )
    agent = mt.Agent(
        calling("probe_ask"),
        mcp=[probe(tmp_path, run="unattended")],
        prompter=prompter,
        store=mt.MemoryStore(),
    )

    assert results(agent, agent.run_sync("Go").conversation) == [
        "accept {'re gion': 'us-2', 'dry': False}"
    ]


def test_a_question_of_a_server_waits_for_a_person(tmp_path: Path) -> None:
    agent = mt.Agent(
        calling("probe_ask_address"),
        mcp=[probe(tmp_path, run="unattended")],
        store=mt.MemoryStore(),
    )

    waiting = agent.run_sync("Go")
    (question,) = waiting.pending
    assert (question.tool, question.kind) == ("probe_ask_address", "tool")
    agent.store.answer_sync(question, True, user="ada")

    assert agent.resume_sync(waiting.conversation).status == "completed"
    assert results(agent, waiting.conversation) == ["accept None"]


def test_servers_stay_connected_within_a_block(tmp_path: Path) -> None:
    agent = mt.Agent(
        calling("probe_echo"), mcp=[probe(tmp_path, run="unattended")], store=mt.MemoryStore()
    )

    async def work() -> None:
        async with agent:
            assert process_ids_in(tmp_path) == []
            await agent.run("Go")
            first = process_ids_in(tmp_path)
            await asyncio.gather(agent.run("Go"), agent.run("Go"))
            assert first
            assert process_ids_in(tmp_path) == first

    asyncio.run(work())
    until(lambda: process_ids_in(tmp_path), lambda found: not found)


def test_servers_stay_connected_within_a_block_without_an_event_loop(tmp_path: Path) -> None:
    agent = mt.Agent(
        calling("probe_echo"), mcp=[probe(tmp_path, run="unattended")], store=mt.MemoryStore()
    )

    with agent:
        agent.run_sync("Go")
        first = process_ids_in(tmp_path)
        with agent.stream_sync("Go") as events:
            assert isinstance([*events][-1], mt.TurnEnded)
        assert first
        assert process_ids_in(tmp_path) == first
    until(lambda: process_ids_in(tmp_path), lambda found: not found)


def test_concurrent_runs_share_the_servers(tmp_path: Path) -> None:
    agent = mt.Agent(
        calling("probe_echo"), mcp=[probe(tmp_path, run="unattended")], store=mt.MemoryStore()
    )

    async def work() -> list[mt.RunResult[None]]:
        return await asyncio.gather(*(agent.run("Go") for _ in range(5)))

    assert {result.status for result in asyncio.run(work())} == {"completed"}
    until(lambda: process_ids_in(tmp_path), lambda found: not found)


def test_a_run_cancelled_while_servers_start_leaves_no_process(tmp_path: Path) -> None:
    started = tmp_path / "started"
    server = probe(
        tmp_path, command=["/bin/sh", "-c", f"touch {started}; while read line; do :; done"]
    )
    agent = mt.Agent(calling("probe_echo"), mcp=[server], store=mt.MemoryStore())

    async def work() -> None:
        run = asyncio.create_task(agent.run("Go"))
        await asyncio.to_thread(until, started.exists, bool)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(work())
    assert agent.store.ids_sync() == []
    until(lambda: process_ids_in(tmp_path), lambda found: not found)


def test_an_unreachable_server_ends_the_run_before_anything_is_recorded(tmp_path: Path) -> None:
    agent = mt.Agent(
        calling("gone_echo"),
        mcp=[probe(tmp_path, name="gone", command="false")],
        store=mt.MemoryStore(),
    )

    with pytest.raises(mt.ConfigError, match="The MCP server `gone` cannot be used: "):
        agent.run_sync("Go")

    assert agent.store.ids_sync() == []


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    agent = mt.Agent(
        calling(), mcp=[probe(tmp_path, command=["no-such-server"])], store=mt.MemoryStore()
    )

    with pytest.raises(
        mt.ConfigError,
        match=(
            "The MCP server `probe` cannot be used: the command `no-such-server` was not found in"
            " PATH"
        ),
    ):
        agent.run_sync("Go")


def test_tools_can_have_other_names(tmp_path: Path) -> None:
    server = probe(tmp_path, rename={"echo": "say"}, run={"*": "unattended"})
    agent = mt.Agent(
        calling("say", a=1),
        mcp=[server],
        store=mt.MemoryStore(),
        routes={"say.*": "user", "probe_ask.*": "user"},
    )

    assert results(agent, agent.run_sync("Go").conversation) == ["echo: {'a': 1}"]


def test_a_tool_with_a_taken_name_is_skipped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @mt.tool
    def probe_echo() -> str:
        """Say something."""
        return "ours"

    agent = mt.Agent(
        calling("probe_echo"), tools=[probe_echo], mcp=[probe(tmp_path)], store=mt.MemoryStore()
    )

    with caplog.at_level(logging.WARNING, "midturn.agent"):
        conversation = agent.run_sync("Go").conversation

    assert results(agent, conversation) == ["ours"]
    assert (
        "has tools that are left out, because their names are used by other tools: `probe_echo`"
        in caplog.text
    )


def test_a_silent_server_times_out(tmp_path: Path) -> None:
    server = probe(tmp_path, run="unattended", timeout=0.3)
    agent = mt.Agent(calling("probe_sleep", seconds=30), mcp=[server], store=mt.MemoryStore())

    (content,) = results(agent, agent.run_sync("Go").conversation)
    assert "was silent for 0.3 seconds" in content


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"run": {"ecko": "unattended"}},
            "`run` names the tool 'ecko', which the server does not have. Did you mean `echo`?",
        ),
        (
            {"rename": {"ecko": "say"}},
            "`rename` names the tool 'ecko', which the server does not have. Did you mean `echo`?",
        ),
    ],
)
def test_a_tool_missing_on_the_server_is_refused(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    agent = mt.Agent(calling("probe_echo"), mcp=[probe(tmp_path, **fields)], store=mt.MemoryStore())

    with pytest.raises(mt.ConfigError) as error:
        agent.run_sync("Go")

    assert str(error.value).startswith(f"McpServer(name='probe'): {message}")
    until(lambda: process_ids_in(tmp_path), lambda found: not found)


@pytest.mark.parametrize(
    "told", [{"routes": {"probe_ecko.*": "user"}}, {"detached": {"probe_ecko": "deny"}}]
)
def test_a_route_for_an_unknown_server_tool_is_refused(
    tmp_path: Path, told: dict[str, Any]
) -> None:
    agent = mt.Agent(calling("probe_echo"), mcp=[probe(tmp_path)], store=mt.MemoryStore(), **told)

    with pytest.raises(
        mt.ConfigError,
        match=r"names the tool `probe_ecko`, but no MCP server has it\. Did you mean `probe_echo`",
    ):
        agent.run_sync("Go")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"command": (), "url": None},
            (
                "an MCP server has either a `command` (midturn starts it) or a `url` (it is already"
                " running)"
            ),
        ),
        (
            {"url": "https://example.org/mcp"},
            (
                "an MCP server has either a `command` (midturn starts it) or a `url` (it is already"
                " running)"
            ),
        ),
        ({"name": "a b"}, "'a b' is not valid as a server's name"),
        ({"command": [1]}, "expected a command: a list such as"),
        ({"headers": {"X": 5}}, "`providers.mcp.probe.headers.X`: expected a string"),
        (
            {"sandbox": {"reed": []}},
            "unknown key `providers.mcp.probe.sandbox.reed`. Did you mean `read`?",
        ),
        (
            {"protocol": "2024"},
            (
                '`providers.mcp.probe.protocol`: expected "auto", "2025-11-25" or "2026-07-28", not'
                ' "2024"'
            ),
        ),
        (
            {"run": "unatended"},
            (
                "run='unatended' is not one of 'ask', 'unattended', 'edit', 'skip'. Did you mean"
                " `unattended`?"
            ),
        ),
        ({"rename": {"echo": "a b"}}, "rename['echo']: `a b` is not a valid tool name"),
        (
            {"timeout": 0},
            (
                'timeout must be seconds (a number above 0) or a duration such as "90s" or "2m",'
                " not 0."
            ),
        ),
        ({"timeout": "soon"}, "not 'soon'."),
    ],
)
def test_an_invalid_description_is_refused_when_the_agent_is_made(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(mt.ConfigError) as error:
        mt.Agent(calling(), mcp=[probe(tmp_path, **fields)])

    assert str(error.value).startswith("McpServer(name=")
    assert message in str(error.value)


def test_two_servers_with_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(mt.ConfigError, match="Two MCP servers have the name `probe`"):
        mt.Agent(calling(), mcp=[probe(tmp_path), probe(tmp_path)])


@pytest.mark.parametrize("given", [{"command": ["x"]}, ["npx"], "npx", 5])
def test_other_types_of_description_are_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="`mcp` takes a list of"):
        mt.Agent(calling(), mcp=given)


def test_a_worker_has_the_servers_of_its_agent(tmp_path: Path) -> None:
    agent = mt.Agent(calling("probe_echo", a=1), mcp=[probe(tmp_path)], store=mt.MemoryStore())
    waiting = agent.run_sync("Go")
    agent.store.answer_sync(waiting.pending[0], True)

    async def work() -> None:
        ended = asyncio.Event()

        def watch(_conversation: str, event: object) -> None:
            if isinstance(event, mt.TurnEnded):
                ended.set()

        worker = asyncio.create_task(agent.work(on_event=watch))
        await ended.wait()
        worker.cancel()
        await asyncio.wait([worker])

    asyncio.run(work())
    assert results(agent, waiting.conversation) == ["echo: {'a': 1}"]
    until(lambda: process_ids_in(tmp_path), lambda found: not found)
