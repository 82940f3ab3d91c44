"""Writes the corpus. Run it with the code of the release whose stores it records: see
README.md.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import midturn as mt
from corpus import agents, observe
from corpus.copies import copied_files
from midturn import clock as clocks
from midturn.agent.assembly import agent as composing
from midturn.channels.state import ChannelState, ReplyInProgress, SentCard
from midturn.events import types as ev
from midturn.events.open_question import AskingAgent, ProcessMark, address
from midturn.inbox.form_session import Drafts
from midturn.inbox.store_access import Port
from midturn.journal import Journal
from midturn.question.answer_type import BooleanType
from midturn.question.persisted_question import PersistedQuestion
from midturn.stores import batch
from midturn.testing import tell_people
from support.postgres import Cluster

HERE = Path(__file__).parent
BEGAN = datetime(2026, 11, 1, 12, tzinfo=UTC)
PAST = "2026-11-01T11:00:00+00:00"
TOKEN = "hunter2-in-no-file"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


# Fixed times and names --------------------------------------------------------------------------
# ----------------------------


class FixedTime:
    """A clock that advances only between stories, or when a story advances it."""

    def __init__(self) -> None:
        self._moment = BEGAN
        self._numbers = itertools.count(1)
        offset = clocks.SYSTEM_TIME._began
        ours = {
            "now": lambda: self._moment,
            "monotonic": lambda: self._moment.timestamp() - offset,
            "elapsed": lambda: self._moment.timestamp() - offset,
        }
        vars(clocks.SYSTEM).update(ours)

    def move(self, **by: float) -> None:
        self._moment += timedelta(**by)

    def seconds(self) -> float:
        """Return Unix time in seconds."""
        return self._moment.timestamp()


def name_in_order(time: FixedTime) -> None:
    """Replace every source of random names by a counter."""
    numbers = itertools.count(1)
    letters = "abcdefghijklmnopqrstuvwxyz234567"

    def event_id() -> str:
        number, text = next(numbers), ""
        for _ in range(12):
            number, digit = divmod(number, 32)
            text = letters[digit] + text
        return text

    batch.event_id = event_id
    from midturn.agent import result

    result.event_id = event_id
    secrets.token_urlsafe = lambda size=16: f"token-{next(numbers):0{max(size - 6, 1)}d}"
    secrets.choice = lambda of: of[next(numbers) % len(of)]

    class Seconds:
        """Replaces the module `time`.

        Each reading of nanoseconds is a microsecond later, so that conversations get different
        IDs.
        """

        def __init__(self) -> None:
            self._looks = itertools.count(1)

        def time_ns(self) -> int:
            return int(time.seconds()) * 1_000_000_000 + next(self._looks) * 1_000

        def time(self) -> float:
            return time.seconds()

    from midturn.inbox import form_session
    from midturn.stores import answer_service, metadata
    from midturn.stores.postgres import transactions

    metadata.time = transactions.time = form_session.time = Seconds()

    class Bytes:
        """Replaces `os.urandom` in modules that use it."""

        def urandom(self, size: int) -> bytes:
            return next(numbers).to_bytes(size)

    answer_service.os = Bytes()


# Stories: what the conversations of the corpus are about
# --------------------------------------------------------------------------------------------------


Story = Callable[["Maker"], Awaitable[None]]


class Later(mt.Prompter):
    """Answers the given questions by ID and is unavailable for all others."""

    concurrent = True

    def __init__(self, replies: Mapping[str, mt.Reply | list[mt.Reply]]) -> None:
        self._replies = {
            key: list(said) if isinstance(said, list) else [said] for key, said in replies.items()
        }
        self.user = "ana"

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        left = self._replies.get(
            prompt.question.id if prompt.kind == "tool" else f"__{prompt.kind}__"
        )
        return left.pop(0) if left else mt.Unavailable()


class Maker:
    """Creates conversations in a store."""

    def __init__(self, store: mt.ConversationStore, time: FixedTime) -> None:
        self.store = store
        self.time = time

    async def run(
        self, text: str, replies: Mapping[str, Any] | None = None, **how: Any
    ) -> mt.RunResult:
        prompter = Later(replies) if replies else None
        return await agents.agent(self.store, prompter).run(text, **how)

    async def asked(self, text: str, replies: Mapping[str, Any] | None = None) -> mt.OpenQuestion:
        """Run a turn that is suspended on a question; return the question."""
        (question,) = (await self.run(text, replies)).pending
        return question

    async def answered(self, text: str, **how: Any) -> mt.RunResult:
        """Run a turn with one question, answer it, and resume."""
        question = await self.asked(text)
        await self.store.answer(question.id, user="ana", **how)
        return await agents.agent(self.store).resume(question.conversation)

    async def written(
        self, words: str, *batches: list[ev.Event], left: AsyncExitStack | None = None
    ) -> Journal:
        """Write events unchanged. With `left`, hold the lock until the process ends."""
        held = await self.store.create(words)
        ids = batch.event_ids()
        begin = [ev.TurnStart(), ev.ChatRequest(content=words)]
        for events in batches if isinstance(batches[0][0], ev.TurnStart) else (begin, *batches):
            named = [
                event if event.event_id else replace(event, event_id=next(ids)) for event in events
            ]
            await held.append(batch.numbered(batch.stamped(named, clocks.SYSTEM)))
        if left is None:
            await held.__aexit__(None, None, None)
        return held


async def finished(make: Maker) -> None:
    """Finished turns with each status."""
    await make.run("Hello, who are you?")
    done = await make.run(
        'confirm {"text": "Shall it be?"}',
        {"confirm": mt.Answered(True, reason="because", remember=True)},
        author="ana",
    )
    await make.run("configured {}", conversation=done.conversation)
    await make.answered("voted {}", value=False, reason="not today")
    await make.answered('erase {"path": "old.txt"}', approve=True, remember=True)
    await make.answered('erase {"path": "older.txt"}', approve=False, reason="keep it")
    await make.answered('erase {"path": "oldest.txt"}', arguments={"path": "newest.txt"})
    await make.answered("confirm {}", reply="Ask me tomorrow.")
    await make.answered('foretold {"path": "plan.md"}', approve=True)
    await make.run("never {}\nfails {}\nnowhere {}")
    await make.run("by_model {}")
    await make.run("confirm {}", {"confirm": mt.EndedTurn()})
    await make.run("judged {}", {"fine": mt.Answered(True)})
    secret = await make.asked("sign_in {}")
    await agents.agent(make.store).resume(
        secret.conversation, secrets={secret.id: TOKEN}, user="ana"
    )
    shaped = mt.Agent(
        mt.FunctionModel(lambda _: {"city": "Rome"}, name="example/model"), store=make.store
    )
    await shaped.run(
        "Which city?",
        schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    )

    def broken(_: mt.ModelRequest) -> str:
        raise mt.ModelError("The model is not reachable.")

    with suppress(mt.ModelError):
        await mt.Agent(mt.FunctionModel(broken, name="example/model"), store=make.store).run(
            "Try it."
        )
    form = {
        "name": [mt.Answered("2.0"), mt.Answered("2.1")],
        "region": [mt.WentBack(), mt.Answered({"other": "mars-1"})],
        "parts": mt.Answered(["api", "web"]),
        "canary": mt.Answered(False),
        "plan": mt.Answered({"steps": 3}),
        "__review__": mt.Submitted(),
    }
    await make.run("release {}", form)


async def questions(make: Maker) -> None:
    """Open questions of every type."""
    await make.asked('confirm {"text": "Open: yes or no?"}')
    await make.asked('ask_user {"question": "Which colour?", "options": ["red", "green"]}')
    await make.asked("twice {}", {"first": mt.Answered("one")})
    await make.asked("sign_in {}")
    await make.asked("checked {}", {"number": mt.Answered(3)})
    await make.asked("judged {}")
    await make.run('confirm {"text": "Both?"}\nerase {"path": "both.txt"}')
    await make.asked(f'soon {{"until": "{agents.FAR.isoformat()}"}}')
    past = await make.asked(f'soon {{"until": "{(BEGAN + timedelta(minutes=30)).isoformat()}"}}')
    make.time.move(hours=1)
    assert past.id not in {question.id for question in await make.store.pending()}
    await make.asked(f'soon {{"until": "{(BEGAN + timedelta(minutes=90)).isoformat()}"}}')


async def forms(make: Maker) -> None:
    """Forms: not begun, half answered, and at their review.

    One half-answered form is a draft of the page.
    """
    await make.run("release {}")
    some = {
        "name": mt.Answered("3.0"),
        "region": mt.Answered("eu-1"),
        "parts": mt.Answered(["jobs"]),
    }
    await make.run("release {}", some)
    rest = {
        "canary": mt.Answered(True),
        "share": mt.Answered("5 %"),
        "plan": mt.Answered({"steps": 1}),
    }
    await make.run("release {}", {**some, **rest})
    (page,) = {(await make.run("release {}")).pending[0].id}
    await Drafts(Port(make.store), page, "ana").keep(
        [{"value": "4.0"}, {"value": "us-2"}, "back", {"value": {"other": "moon"}}]
    )


async def permissions(make: Maker) -> None:
    """Open permissions and deliveries."""
    await make.asked('erase {"path": "open.txt"}')
    await make.asked('foretold {"path": "plan.md"}')
    await make.asked("picture {}", {"__run__": mt.Answered(True)})
    await make.answered("picture {}", approve=True)


async def people(make: Maker) -> None:
    """Questions for certain people: votes, edits, reassignments, notes."""
    voted = await make.asked("voted {}")
    await make.store.answer(voted.id, True, user="a.smith", via="web")
    back = await make.asked("voted {}")
    await make.store.answer(back.id, True, user="ana")
    await make.store.withdraw_vote(back.id, user="ana")
    edited = await make.asked('deploy {"env": "production"}')
    await make.store.answer(edited.id, approve=True, user="ana", about=edited.about)
    await make.store.answer(edited.id, arguments={"env": "production", "size": 2}, user="bo")
    passed = await make.asked("voted {}")
    await make.store.reassign(passed.id, ["carl"], reason="on leave", user="ana")
    told = await make.asked("told {}")
    await tell_people(make.store)
    make.time.move(seconds=61)
    await tell_people(make.store)
    make.time.move(seconds=61)
    await tell_people(make.store)
    await make.store.answer(told.id, True, user="bo")
    done = await make.asked("voted {}")
    await make.store.answer(done.id, True, user="ana")
    await make.store.answer(done.id, True, user="bo")
    await agents.agent(make.store).resume(done.conversation)


async def nested(make: Maker) -> None:
    """Agents inside tools."""
    inside = 'delegate {"text": "confirm {\\"text\\": \\"Inside?\\"}"}'
    await make.run(inside)
    waiting = await make.run(inside)
    await make.store.answer(waiting.pending[0].id, True, user="ana")
    await agents.agent(make.store).resume(waiting.conversation)
    answered = await make.run(inside)
    await make.store.answer(answered.pending[0].id, True, user="ana")


async def ready(make: Maker) -> None:
    """Turns that were answered and not resumed."""
    question = await make.asked("confirm {}")
    await make.store.answer(question.id, True, user="ana", reason="I looked")
    call = await make.asked('erase {"path": "ready.txt"}')
    await make.store.answer(call.id, approve=True, user="ana")


async def others(make: Maker) -> None:
    """Turns of other programs, and events that only a race or another version writes."""
    inquirer = mt.Inquirer(make.store, await make.store.new("A job"))

    async def ship(call: mt.InquirerCall) -> str:
        return f"{await call.ask(mt.Question.boolean('sure', 'Ship it?'))}"

    with_key = inquirer.turn("Ship it.", key="job 1")
    try:
        async with with_key:
            await inquirer.run("ship", "call_1", {}, ship)
    except mt.Suspended:
        pass
    over = mt.Inquirer(
        make.store, await make.store.new("Another job"), Later({"sure": mt.Answered(True)})
    )
    async with over.turn("Ship it.", key="job 2"):
        await over.run("ship", "call_1", {}, ship)

    asker = AskingAgent(
        name="Claude Code",
        agent="claude",
        session="s1",
        via="hook",
        cwd="/project",
        process=ProcessMark(4_000_000, "1", "boot"),
        said="I erase it.",
    )
    call = ev.ToolCallRequest(
        event_id="othercall1aa", id="toolu_1", name="Bash", arguments={"command": "rm a"}
    )
    wait = ev.Approval(id="toolu_1.__run__.1", call="othercall1aa", kind="run", state="waiting")
    begin = [ev.TurnStart(metadata=asker.metadata()), ev.ChatRequest(content="Erase it.")]
    await make.written("Erase it.", begin, [call, wait])
    await make.written(
        "Erased elsewhere.",
        begin,
        [call, wait],
        [
            ev.Approval(id=wait.id, call=wait.call, kind="run", state="superseded"),
            ev.ToolCallResponse(
                id="toolu_1", call=wait.call, content="It was decided in its own dialog."
            ),
            ev.TurnEnd(status="completed"),
        ],
    )
    confirm = ev.ToolCallRequest(
        event_id="confirmcall1", id="call_1", name="confirm", arguments={"text": "Go on?"}
    )
    asked = ev.InquiryRequest(
        event_id="confirmasks1",
        id="call_1.confirm.1",
        source=ev.Source.tool("confirm"),
        question=PersistedQuestion(
            text="Go on?",
            answer_type=BooleanType(),
            exclusive=True,
            context="What *should* be known.",
        ),
        call="confirmcall1",
        tool_call_id="call_1",
        question_id="confirm",
    )
    await make.written("Suspended again.", [confirm, asked], [ev.Suspended(through="confirmasks1")])
    await make.written(
        "Flags.",
        [
            ev.ConfigDelta(delta={"conversation": {"tools": {"confirm": {"run": "ask"}}}}),
            ev.TurnStart(),
            ev.ChatRequest(content="Flags."),
        ][1:],
        [ev.ConfigDelta(delta={"assistant": {"model": {"id": "example/model"}}}), confirm, asked],
    )
    image = ev.Image("image/png", PIXEL)
    await make.written(
        "Pictures.",
        [replace(confirm, event_id="picturecall1", name="picture", arguments={})],
        [
            ev.Approval(
                id="call_1.__run__.1",
                call="picturecall1",
                kind="run",
                state="approved",
                answered_by=ev.AnsweredBy("user", user="ana"),
                arguments_sha256="44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
            )
        ],
        [
            ev.Approval(
                id="call_1.__deliver__.1",
                call="picturecall1",
                kind="deliver",
                state="waiting",
                content="a picture",
                is_error=False,
                images=(image,),
            )
        ],
    )
    for reason in (
        "user",
        "backend_error",
        "no_prompt_backend",
        "assistant_routing_denied",
        "invalid_static_answer",
        "back",
        "detached_denied",
        "no_default",
        "limit_exceeded",
        "superseded",
        "deadline",
        "of a later version",
    ):
        failed = [
            ev.InquiryCancelled(id=asked.id, reason=reason),
            ev.ToolCallResponse(
                id="call_1", call="confirmcall1", content="No answer.", is_error=True
            ),
            ev.ChatResponse(message="A pity."),
            ev.TurnEnd(status="completed"),
        ]
        await make.written(f"Cancelled: {reason}.", [confirm, asked], failed)
    by = [
        ev.AnsweredBy(kind, **more)
        for kind, more in (
            ("policy", {"name": "rules"}),
            ("assistant", {"model": "example/model"}),
            ("static", {"origin": "config.toml:3"}),
            ("cached", {}),
            ("default", {}),
            ("configuration", {"origin": "config.toml:9"}),
            ("of a later version", {}),
        )
    ]
    for who in by:
        done = [
            ev.InquiryAnswered(id=asked.id, answer=True, answered_by=who),
            ev.ToolCallResponse(id="call_1", call="confirmcall1", content="confirmed"),
            ev.ChatResponse(message="Done."),
            ev.TurnEnd(status="completed"),
        ]
        await make.written(f"Answered by: {who.by}.", [confirm, asked], done)
    await make.written(
        "Expired.",
        [
            replace(confirm, name="erase", arguments={"path": "a"}),
            ev.Approval(
                id="call_1.__run__.1",
                call="confirmcall1",
                kind="run",
                state="waiting",
                deadline=PAST,
                requires="0.2",
            ),
        ],
        [
            ev.Approval(id="call_1.__run__.1", call="confirmcall1", kind="run", state="expired"),
            ev.ToolCallResponse(
                id="call_1",
                call="confirmcall1",
                content="Nobody allowed it in time.",
                is_error=True,
            ),
            ev.TurnEnd(status="failed", error="too late"),
        ],
    )
    await make.written(
        "Ended by somebody.",
        [confirm, asked],
        [
            ev.InquiryCancelled(id=asked.id, reason="user"),
            ev.TurnEnd(
                status="ended_by_user", ended_by=ev.AnsweredBy("user", via="web", user="bo")
            ),
        ],
    )


async def channels(make: Maker) -> None:
    """State of channels."""
    ledger = ChannelState(make.store.port, lambda: clocks.stamp(clocks.SYSTEM))
    code = await ledger.create_code("ana", "telegram")
    await ledger.redeem_code("telegram", "1001", code)
    await ledger.create_code("bo", "matrix")
    question = (await make.store.pending())[0]
    card = SentCard(
        key="card1",
        question=question.id,
        to="1001",
        person="ana",
        handle="55",
        tokens={"token-a": "yes", "token-b": "no"},
        before=("token-c",),
        about="x",
        there="x",
        at="2026-11-01T12:00:00.000000Z",
        asked=question.question.text,
        tries=1,
    )
    await ledger.save_card("telegram", card)
    await ledger.save_card(
        "telegram", replace(card, key="card2", steps=({"value": "4.0"},), pending={"value": True})
    )
    await ledger.save_reply_in_progress("telegram", ReplyInProgress("msg 7", "card1", "begun"))
    await (await ledger.memory("telegram")).set("offset", "77")
    await ledger.acquire_lease("telegram", "server-1")


STORIES: tuple[Story, ...] = (
    finished,
    questions,
    forms,
    permissions,
    people,
    nested,
    ready,
    others,
    channels,
)


async def die(make: Maker) -> None:
    """Leave turns as a killed process does: in a model request, in a tool, with queued answers.

    This ends the process.
    """
    stopped = asyncio.Event()

    async def waits(_: mt.ModelRequest) -> str:
        started.set()
        await stopped.wait()
        return ""

    @mt.tool
    async def hangs() -> str:
        started.set()
        await stopped.wait()
        return ""

    running: list[asyncio.Task[Any]] = []
    for agent in (
        mt.Agent(mt.FunctionModel(waits, name="example/model"), store=make.store),
        mt.Agent(
            mt.FunctionModel(
                lambda _: {"calls": [{"id": "call_1", "name": "hangs"}]}, name="example/model"
            ),
            tools=[hangs],
            store=make.store,
        ),
    ):
        started = asyncio.Event()
        running.append(asyncio.create_task(agent.run("Hello, it takes long.")))
        await started.wait()
    confirm = ev.ToolCallRequest(
        event_id="handedcall1a", id="call_1", name="confirm", arguments={"text": "Go on?"}
    )
    text = PersistedQuestion(
        text="Go on?", answer_type=BooleanType(), exclusive=True, context="What *should* be known."
    )
    asked = ev.InquiryRequest(
        event_id="handedasks1a",
        id="call_1.confirm.1",
        source=ev.Source.tool("confirm"),
        question=text,
        call=confirm.event_id,
        tool_call_id="call_1",
        question_id="confirm",
    )
    async with AsyncExitStack() as left:
        one = await make.written("Answered on its way.", [confirm, asked], left=left)
        await make.store.answer(
            address(one.conversation, asked.event_id), True, user="ana", reason="on its way"
        )
        voted = [
            replace(confirm, name="voted", arguments={}),
            replace(
                asked,
                id="call_1.sure.1",
                source=ev.Source.tool("voted"),
                question_id="sure",
                question=PersistedQuestion(text="Are you sure?", answer_type=BooleanType()),
                people=agents.OPS,
                requires="0.2",
            ),
        ]
        two = await make.written("Votes on their way.", voted, left=left)
        at = address(two.conversation, asked.event_id)
        await make.store.answer(at, True, user="ana")
        await make.store.reassign(at, ["bo"], user="carl")
        os._exit(0)


async def tell(address: str) -> None:
    """Create all conversations in one store and end the process."""
    time = FixedTime()
    name_in_order(time)
    made = composing.tool_policy
    composing.tool_policy = lambda name, *args, **more: replace(
        made(name, *args, **more), result="ask" if name == "picture" else "unattended"
    )
    store = mt.open_store(address)
    make = Maker(store, time)
    for story in STORIES:
        time.move(minutes=1)
        await story(make)
    time.move(minutes=1)
    await die(make)


# The written files ------------------------------------------------------------------------------
# ----------------------------


SCHEMA = "written_by_0_2_0"
FILES, DUMP, EXPECTED = HERE / "files", HERE / "postgres.sql", HERE / "expected.json"


def make_files(folder: Path) -> None:
    """Write the file store without caches and without names of this machine."""
    made = folder / "files"
    _play(str(made))
    shutil.rmtree(FILES, ignore_errors=True)
    for found in sorted(made.rglob("*")):
        name = found.relative_to(made)
        if (
            found.is_symlink()
            or not found.is_file()
            or any(part.startswith(".") for part in name.parts)
        ):
            continue
        content = found.read_text()
        if name.name == "lock" and not content:
            continue
        if name.name == "lock":
            content = json.dumps(
                {
                    "pid": 4_000_000,
                    "since": json.loads(content)["since"],
                    "host": "corpus",
                    "boot": "corpus",
                    "namespace": "corpus",
                }
            )
        (FILES / name).parent.mkdir(parents=True, exist_ok=True)
        (FILES / name).write_text(content)


def make_dump() -> None:
    """Write the database dump with fixed server times."""
    server = Cluster("fsync=off")
    try:
        _play(f"{server.url}&midturn_schema={SCHEMA}")
        _psql(
            server,
            f"update {SCHEMA}.conversation set held_since = timestamptz '2026-11-01 13:12Z' where"
            " held_since is not null",
        )
        _psql(
            server,
            f"update {SCHEMA}.conversation set wake = timestamptz '2026-11-01 13:12Z' where wake <"
            " timestamptz '2900-01-01'",
        )
        dump = ["pg_dump", "--inserts", "--no-owner", f"--schema={SCHEMA}", server.url]
        lines = subprocess.run(
            dump,
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "TZ": "UTC", "PGTZ": "UTC"},
        ).stdout.splitlines()
        kept = [line for line in lines if not line.startswith(("--", "\\", "SET ")) and line]
        rows = iter(sorted(line for line in kept if line.startswith("INSERT")))
        DUMP.write_text(
            "\n".join(next(rows) if line.startswith("INSERT") else line for line in kept) + "\n"
        )
    finally:
        server.remove()


def _psql(server: Cluster, statement: str) -> None:
    subprocess.run(["psql", "-q", "-d", server.url, "-c", statement], check=True)


def _play(address: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "corpus.make", address],
        check=True,
        env={**os.environ, "PYTHONPATH": os.environ["PYTHONPATH"]},
    )


async def make_expectations(folder: Path) -> None:
    """Record what this version shows of the file store, and the results of answering and
    resuming.
    """
    stores = {name: mt.open_store(copied_files(folder / name)) for name in ("shown", "answered")}
    expected = {
        "shown": await observe.shown(stores["shown"]),
        "answered": await observe.answered(stores["answered"]),
    }
    EXPECTED.write_text(json.dumps(expected, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def main() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        folder = Path(made)
        make_files(folder)
        make_dump()
        asyncio.run(make_expectations(folder))


if __name__ == "__main__":
    if sys.argv[1:]:
        asyncio.run(tell(sys.argv[1]))
    else:
        main()
