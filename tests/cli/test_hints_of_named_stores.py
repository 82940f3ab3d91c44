"""Commands suggested in messages include the store given with `--store`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import midturn as mt
from support.cli import CommandLine

ACTS_ON_A_STORE = re.compile(
    r"`midturn (?:answer|inbox|resume|query|conversation)\b(?![^`]* --help)[^`]*`"
)


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """A store at another path with a finished, a suspended and an interrupted conversation, in
    this order.
    """

    @mt.tool
    async def asks(ctx: mt.ToolContext) -> str:
        """Ask."""
        return str(await ctx.ask(mt.Question.boolean("sure", "Sure?")))

    def down(_: mt.ModelRequest) -> str:
        raise mt.ModelError("It is down.")

    store = mt.open_store(tmp_path / "elsewhere", trusted=True)
    mt.Agent(mt.ScriptedModel([{"text": "Done."}]), store=store).run_sync("Go.")
    mt.Agent(mt.ScriptedModel([{"calls": [{"name": "asks"}]}]), tools=[asks], store=store).run_sync(
        "Ask."
    )
    with pytest.raises(mt.ModelError):
        mt.Agent(mt.FunctionModel(down), store=store).run_sync("Fail.")
    return tmp_path / "elsewhere"


@pytest.mark.parametrize(
    "command",
    [
        "answer nothing yes",
        "answer",
        "answer {waiting} yes --digest short",
        "conversation show 9999",
        "resume 9999",
        "resume {finished}",
        "resume --ready",
        "conversation fork {finished}",
        "query -m {model} --id {interrupted} --defer More",
        "inbox",
    ],
)
def test_a_hint_names_the_store_in_use(midturn: CommandLine, named: Path, command: str) -> None:
    store = mt.open_store(named, trusted=True)
    finished, waiting, interrupted = store.ids_sync()
    (question,) = store.pending_sync(waiting)
    model = midturn.script({"text": "Done."})
    words = command.format(
        finished=finished, waiting=question.id, interrupted=interrupted, model=model
    ).split()

    ended = midturn.run(*words, "--store", str(named))

    hints = ACTS_ON_A_STORE.findall(ended.stderr)
    assert hints, ended.stderr
    assert [hint for hint in hints if f" --store {named}`" not in hint] == []


def test_a_hint_in_an_empty_store_names_it(midturn: CommandLine, tmp_path: Path) -> None:
    ended = midturn.run("conversation", "show", "--store", str(tmp_path / "empty"))

    assert f'To start one: `midturn query "…" --store {tmp_path / "empty"}`' in ended.stderr


def test_prune_names_the_store_in_the_command_that_removes_a_damaged_conversation(
    midturn: CommandLine, named: Path
) -> None:
    damaged = mt.open_store(named, trusted=True).ids_sync()[0]
    (log,) = named.glob(f"{damaged}*/events.jsonl")
    log.write_text("not a line of JSON\n")

    ended = midturn.run("conversation", "prune", "--older", "1ms", "--store", str(named))

    assert (
        f"To delete it anyway: `midturn conversation rm {damaged} --store {named}`" in ended.stderr
    )
    assert ended.status == 1
