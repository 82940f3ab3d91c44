"""The doors through which a person answers what our assistant asks: each a small class, with a reason for every story that it lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import ClassVar

from midturn.stores.opening import FileStore
from midturn.web import inbox
from support.channels.phones import missing
from support.cli import CommandLine
from support.pages import ada, browsing
from support.postgres import no_postgres
from support.stories.agents import Chooser, Claude, Codex, Copilot, Gemini, HookedAgent, LatePerson, OtherAgent, Qwen
from support.stories.askers import FunctionLoop, InquirerLoop, LanggraphLoop, OpenaiLoop, PydanticLoop
from support.stories.assistants import AskingModel, Assistant, Program, ReadyAssistant, WatchedAssistant, WorkedInADatabase, WorkedProgram
from support.stories.editors import EditedAssistant
from support.stories.headless import AcpAgent, CodexApp
from support.stories.mcp_doors import FormPerson, Latecomer, LookingAgent, McpAgent, ShownAgent, http_server, over_http, over_stdio
from support.stories.on_a_phone import on_a_phone
from support.stories.opencode import Opencode
from support.stories.outcome import Outcome
from support.stories.people import ApiPerson, CommandPerson, PagePerson, PrompterPerson, StorePerson
from support.stories.scene import Asker, Pair, Person, Scene
from support.stories.servers import AssistantOfALegacyServer, AssistantOfAModernServer, ServedAssistant
from support.stories.stories import STORIES
from support.stories.story import Story
from support.stories.terminals import AnsweredAtATerminal, AttachedAssistant

CLOSES = "its prompt closes with the question: there is nothing left to answer at"
RUNS = "who asks waits at the prompt, and asks nothing a second time"
SECRETS = "a secret is given where its tool runs: nothing on the way there may write it down"
NO_RESULTS = "tools of a program have no policy for their results"
NO_BACK = "an answer on a command line goes back to nothing: without a value, it does"
IN_MEMORY = "Back on the page changes answers that are not sent yet, and on no record"
OVER = "its card is over with the question, and says who was faster: there is nothing left to press"
ANSWERS_ALONE = "a card takes an answer and its reason; what is said beside that, changed or ended is said on the page or at a terminal"
WITH_THE_PROGRAM = "who leaves here ends the program, and whoever comes back is another prompter"

NO_CONDITIONS = "all questions that its model asks at once are asked: none depends on an answer to go back to"
ASKED_THERE = "where the hook dies, the dialog of its agent asks the question in its place"
NO_POLICY_AT_A_HOOK = "a hook takes no detached policy: what it asks waits for a person"
NO_DELIVERY = "an agent of others delivers its results itself, and asks nobody here"
SHARED = "clients share this server, and none is known to be the one that has asked before: its question stays open"
OWN_PERMISSIONS = "an agent that asks for its permissions through our server has shown its own prompt, or has none"
WHOLE_FORM = "its dialog shows a form as a whole: who leaves it has answered nothing"
WORDLESS = "its dialog takes what was asked for, or a no: there is no place for words beside it"
NO_END = "who closes its dialog has said nothing, and ends nothing: the question stays open"
NO_BACK_THERE = "its dialog knows no way back to a form that was sent"
NO_REVIEW_THERE = "a form that an agent of others asks is over with its last answer: there is no review"

THERE = "who answers here is in the process that asks, wherever that is"
SOMEBODY = "who has this prompt is there"
WAITS_THERE = "clients and servers that are killed, or run far from each other, are tests of their own"
NO_POLICY_THERE = "its server takes no detached policy: what it asks waits for a person"
FOR_A_PERSON = "what a model asks is for a person alone: without one it is refused under every policy but `defer`"
IN_ITS_MEMORY = "the checkpoints of this row are in memory, and die with its process"

OF_A_PROGRAM = "what runs here is a command of a configuration: an agent inside a tool is a program's"
NOT_OURS = "this loop is not ours: an agent inside its tool is a turn of its own, with nothing around it"
THEIR_RESULT = "its loop asks its model itself: what that says at last is not ours to read"
INSIDE_THERE = "what an agent of others runs inside its tools is its own affair"

NO_PERMISSION = "`ask_user` is allowed always, and its result is what the user said"
STAYS = "what a model asks are its arguments, which stay"
CALL_STAYS = "a call of our model waits for its permission as it was made"

_DELIVERY = dict.fromkeys(("deliver: yes", "deliver: no", "deliver: edit"), NO_RESULTS)
PERMISSIONS = [story.name for story in STORIES if story.scene.run == "ask"]
_OURS = {"permission: another call": CALL_STAYS}
UNASKED = [story.name for story in STORIES if story.scene.detached != "defer"]
_NOBODY = [story.name for story in STORIES if story.name.startswith("nobody there")]
ELSEWHERE_BEFORE = (
    *("answered late", "answered twice", "answered twice at once", "superseded by a changed text"),
    *("permission: answered late", "permission: answered twice"),
)
_ATTACHED = {
    **_OURS,
    **dict.fromkeys(ELSEWHERE_BEFORE, CLOSES),
    "asked twice": RUNS,
    "asker in another PID namespace": THERE,
    **dict.fromkeys(_NOBODY, SOMEBODY),
}
ONE_CALL = "this loop makes one call in the story; two at once are tests of its own"
NO_REVIEW = "a review belongs to what the model asks by `ask_user`"
NO_POLICY = "a loop that is not ours has no policy for calls and results: it asks a question"
_NO_ARGUMENTS = {"permission: edit": "this function takes no arguments that could be changed"}
_FOREIGN = {
    **_DELIVERY,
    **dict.fromkeys((*PERMISSIONS, *_DELIVERY), NO_POLICY),
    "secret": SECRETS,
    "two people": ONE_CALL,
    "review": NO_REVIEW,
    "inner agent": NOT_OURS,
    "typed result": THEIR_RESULT,
}


class Door:
    """A way to answer. `lacks` has the reason for each story that there is none of here, by its name.

    `part` is what is needed here that is not Python; `shares` names a process that all its stories share.
    """

    name: ClassVar[str]
    lacks: ClassVar[Mapping[str, str]] = {}
    part: ClassVar[str] = ""
    shares: ClassVar[str] = ""

    def __init__(self, closing: ExitStack) -> None:
        """Come to the door; what is opened there is closed at the end by `closing`."""
        self.closing = closing

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set a story up in a directory of its own."""
        raise NotImplementedError

    @staticmethod
    def missing() -> str:
        """Say why this machine does not have that part; empty where it has."""
        return ""

    @classmethod
    def expected(cls, story: Story) -> Outcome:
        """Return the outcome of a story here."""
        return cls.heard(story.outcome)

    @classmethod
    def heard(cls, outcome: Outcome) -> Outcome:
        """Return the outcome of a story in the words of who asks here: our model's own, unless an agent of others has a rule for them."""
        return outcome


class StoreDoor(Door):
    """A program answers what an agent asked, and goes on with it."""

    name = "`store.answer`"
    lacks: ClassVar[Mapping[str, str]] = {**_OURS, **_DELIVERY, "secret": SECRETS}

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        asker = Program(scene, directory)
        return Pair(asker, StorePerson(asker.store))


class PrompterDoor(Door):
    """A program shows a question as its agent asks it."""

    name = "`Prompter`"
    lacks: ClassVar[Mapping[str, str]] = {
        **_DELIVERY,
        **_ATTACHED,
        **dict.fromkeys(("a form, half answered", "asker dead, then back", "permission: asker dead, then back"), WITH_THE_PROGRAM),
    }

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        person = PrompterPerson()
        asker = Program(scene, directory, person.prompter)
        return Pair(person.attached_to(asker), person)


class AnswerDoor(Door):
    """A person answers by a command with the answer in it."""

    name = "`midturn answer ID VALUE`"
    lacks: ClassVar[Mapping[str, str]] = {**_OURS, "back": NO_BACK, "review": NO_BACK, "secret": SECRETS}

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        assistant = None if scene.inner else Assistant(scene, directory)
        asker = assistant or Program(scene, directory)
        user = assistant.user if assistant else CommandLine(directory)
        return Pair(asker, CommandPerson(asker.store, user, str(directory / "store")))


class TerminalDoor(Door):
    """A person answers at the terminal at which the turn runs."""

    name = "terminal, rich"
    lacks: ClassVar[Mapping[str, str]] = {**_ATTACHED, "inner agent": OF_A_PROGRAM}
    plain: ClassVar[bool] = False

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        asker = AttachedAssistant(scene, directory, plain=self.plain)
        self.closing.callback(asker.person.leave)
        return Pair(asker, asker.person)


class PlainTerminalDoor(TerminalDoor):
    """The same, line by line."""

    name = "terminal, plain"
    plain = True


class AnswerAtTerminalDoor(Door):
    """A person is asked at a terminal of their own, while nobody runs the turn."""

    name = "`midturn answer ID`"
    lacks: ClassVar[Mapping[str, str]] = _OURS

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        asker = AnsweredAtATerminal(scene, directory, plain=True)
        self.closing.callback(asker.person.leave)
        return Pair(asker, asker.person)


class ReadyDoor(Door):
    """Turns go on by a command that looks for them once."""

    name = "`resume --ready`"
    lacks: ClassVar[Mapping[str, str]] = {**_OURS, "secret": SECRETS, "inner agent": OF_A_PROGRAM}

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        asker = ReadyAssistant(scene, directory)
        return Pair(asker, StorePerson(asker.store))


class WatchDoor(Door):
    """Turns go on by a command that stays."""

    name = "`resume --ready --watch`"
    lacks: ClassVar[Mapping[str, str]] = {**_OURS, "secret": SECRETS, "inner agent": OF_A_PROGRAM}

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        asker = WatchedAssistant(scene, directory)
        self.closing.callback(asker.stop)
        return Pair(asker, StorePerson(asker.store))


class WorkerDoor(Door):
    """Turns go on in a worker."""

    name = "worker, files"
    lacks: ClassVar[Mapping[str, str]] = {**_OURS, **_DELIVERY, "secret": SECRETS}
    worked: ClassVar[type[WorkedProgram]] = WorkedProgram

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        asker = self.worked(scene, directory)
        self.closing.callback(asker.stop)
        return Pair(asker, StorePerson(asker.store))


class DatabaseWorkerDoor(WorkerDoor):
    """The same over a database."""

    name = "worker, PostgreSQL"
    part = "PostgreSQL"
    missing = staticmethod(no_postgres)
    worked = WorkedInADatabase


class PageDoor(Door):
    """A person answers on the page, which sends forms without a script."""

    name = "page"
    lacks: ClassVar[Mapping[str, str]] = {**_OURS, "back": IN_MEMORY, "review": IN_MEMORY}

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        is_secret = any(question["answer_type"]["type"] == "secret" for question in scene.ask)
        asker = Program(scene, directory) if is_secret or scene.inner else Assistant(scene, directory)
        pages = inbox(asker.agent if isinstance(asker, Program) else asker.store, user=ada)  # a secret goes to the turn itself
        return Pair(asker, PagePerson(asker.store, self.closing.enter_context(browsing(pages))))


class ApiDoor(Door):
    """A program of somebody answers through the API of the page."""

    name = "API"
    lacks: ClassVar[Mapping[str, str]] = {**_OURS, "secret": SECRETS}

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        asker = Program(scene, directory) if scene.inner else Assistant(scene, directory)
        return Pair(asker, ApiPerson(asker.store, self.closing.enter_context(browsing(inbox(asker.store, user=ada)))))


class ChannelDoor(Door):
    """A person answers on their phone, where a channel brings the question."""

    lacks: ClassVar[Mapping[str, str]] = {
        **_OURS,
        "secret": SECRETS,
        "back": IN_MEMORY,
        "review": IN_MEMORY,
        **dict.fromkeys((*ELSEWHERE_BEFORE, *UNASKED), OVER),
        **dict.fromkeys(("reply", "cancelled", "permission: cancelled", "permission: edit", "deliver: edit"), ANSWERS_ALONE),
    }
    kind: ClassVar[str]

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        asker = Program(scene, directory) if scene.inner else Assistant(scene, directory)
        return Pair(asker, self.closing.enter_context(on_a_phone(self.kind, asker.store)))


class TelegramDoor(ChannelDoor):
    """In Telegram."""

    name = "Telegram"
    kind = "telegram"


class SlackDoor(ChannelDoor):
    """In Slack."""

    name = "Slack"
    kind = "slack"


class DiscordDoor(ChannelDoor):
    """In Discord."""

    name = "Discord"
    kind = "discord"


class NtfyDoor(ChannelDoor):
    """In ntfy."""

    name = "ntfy"
    kind = "ntfy"


class EmailDoor(ChannelDoor):
    """By mail."""

    name = "e-mail"
    kind = "email"
    part = "channels"
    missing = staticmethod(partial(missing, "email"))


class MatrixDoor(ChannelDoor):
    """In Matrix."""

    name = "Matrix"
    kind = "matrix"
    part = "channels"
    missing = staticmethod(partial(missing, "matrix"))


class AskerDoor(Door):
    """A way to ask; a program answers in the store, and the loop is entered again."""

    loop: ClassVar[Callable[[Scene, Path], Asker]]

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        asker = type(self).loop(scene, directory)
        return Pair(asker, StorePerson(asker.store))


class FunctionDoor(AskerDoor):
    """A function of a program that asks in the middle."""

    name = "a function of our agent"
    loop = FunctionLoop
    lacks: ClassVar[Mapping[str, str]] = {
        **_OURS,
        **_DELIVERY,
        "secret": SECRETS,
        "two people": ONE_CALL,
        "review": NO_REVIEW,
        **_NO_ARGUMENTS,
    }


class ReturningDoor(AskerDoor):
    """A tool that returns what it asks, and is run again."""

    name = "a tool of our agent that returns its questions"
    loop = Program
    lacks: ClassVar[Mapping[str, str]] = {**_OURS, **_DELIVERY, "secret": SECRETS}


class AskUserDoor(AskerDoor):
    """The model itself."""

    name = "`ask_user`"
    loop = AskingModel
    lacks: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys((*PERMISSIONS, *_DELIVERY), NO_PERMISSION),
        "secret": SECRETS,
        "two people": ONE_CALL,
        "superseded by a changed text": STAYS,
        **dict.fromkeys(UNASKED, FOR_A_PERSON),
    }


class CommandDoor(AskerDoor):
    """A command of a configuration."""

    name = "a command of a configuration"
    loop = Assistant
    lacks: ClassVar[Mapping[str, str]] = {**_OURS, "secret": SECRETS, "inner agent": OF_A_PROGRAM}


class InquirerDoor(AskerDoor):
    """A loop of one's own."""

    name = "`Inquirer`"
    loop = InquirerLoop
    lacks: ClassVar[Mapping[str, str]] = _FOREIGN


class PydanticDoor(AskerDoor):
    """An adapter."""

    name = "pydantic-ai"
    loop = PydanticLoop
    lacks: ClassVar[Mapping[str, str]] = _FOREIGN


class LanggraphDoor(AskerDoor):
    """An adapter."""

    name = "LangGraph"
    loop = LanggraphLoop
    lacks: ClassVar[Mapping[str, str]] = {**_FOREIGN, "asker dead, then back": IN_ITS_MEMORY}


class OpenaiDoor(AskerDoor):
    """An adapter."""

    name = "OpenAI Agents SDK"
    loop = OpenaiLoop
    lacks: ClassVar[Mapping[str, str]] = _FOREIGN


class OtherAgentDoor(Door):
    """An agent of others, which waits for its answer and hears it in words of its own."""

    agent: ClassVar[type[OtherAgent]]

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        asker = self.agent(scene, directory)
        return Pair(asker, LatePerson(asker))

    @classmethod
    def heard(cls, outcome: Outcome) -> Outcome:
        """Put the outcome in its words."""
        return Outcome(outcome.record, (cls.agent.hears(outcome),), outcome.end)


_AT_A_HOOK = {
    "typed result": THEIR_RESULT,
    **{story.name: NO_DELIVERY for story in STORIES if story.scene.result == "ask"},
    **{story.name: SECRETS for story in STORIES if any(asked["answer_type"]["type"] == "secret" for asked in story.scene.ask)},
    **dict.fromkeys(UNASKED, NO_POLICY_AT_A_HOOK),
    "inner agent": INSIDE_THERE,
    "review": NO_REVIEW_THERE,
    "back": NO_CONDITIONS,
}


class HookDoor(Door):
    """A hook of an agent of others, which asks for a permission, or asks what the agent's model does."""

    agent: ClassVar[type[HookedAgent]]
    lacks: ClassVar[Mapping[str, str]] = _AT_A_HOOK

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        asker = self.agent(scene, directory)
        self.closing.callback(asker.stop)
        others = partial(Chooser, scene=scene)
        return Pair(asker, others(asker.store, None), others)

    @classmethod
    def expected(cls, story: Story) -> Outcome:
        """Put each call's in the agent's words."""
        outcome, scene = story.outcome, story.scene
        asked = ((), ()) if scene.run == "ask" else (scene.changed or scene.ask, scene.second)
        calls = zip(outcome.words, asked, strict=False)
        words = tuple(cls.agent.hears(Outcome(outcome.record, (one,), outcome.end), questions) for one, questions in calls)
        return Outcome(outcome.record, words, outcome.end)


class ClaudeHookDoor(HookDoor):
    """A hook."""

    name = "hook of Claude Code"
    agent = Claude


class CodexHookDoor(HookDoor):
    """A hook."""

    name = "hook of Codex"
    agent = Codex


class GeminiHookDoor(HookDoor):
    """A hook."""

    name = "hook of Gemini CLI"
    agent = Gemini
    lacks: ClassVar[Mapping[str, str]] = {**_AT_A_HOOK, "asker dead, then back": ASKED_THERE}


class QwenHookDoor(HookDoor):
    """A hook."""

    name = "hook of Qwen Code"
    agent = Qwen


class CopilotHookDoor(HookDoor):
    """A hook."""

    name = "hook of Copilot CLI"
    agent = Copilot


HEADLESS_WAITS = "this agent waits for what it has asked, and asks nothing else meanwhile"
KILLED_THERE = "agents that are killed, or run far from us, are tests of their own"
CHOOSES = "a choice of an editor has no place for changes: who wants them refuses, and says so"
NO_SHAPE = "a prompt in an editor asks for words, and has no place for a shape"
DROPPED = "a dialog that an editor leaves open is told nothing: what it sends late is dropped"
_HEADLESS = {
    "typed result": THEIR_RESULT,
    **{story.name: NO_DELIVERY for story in STORIES if story.scene.result == "ask"},
    **{story.name: SECRETS for story in STORIES if any(asked["answer_type"]["type"] == "secret" for asked in story.scene.ask)},
    **dict.fromkeys(UNASKED, NO_POLICY_THERE),
    "inner agent": INSIDE_THERE,
    **dict.fromkeys(("asker dead, then back", "permission: asker dead, then back", "asker in another PID namespace"), KILLED_THERE),
    "review": NO_REVIEW_THERE,
    "back": NO_CONDITIONS,
    **dict.fromkeys(("superseded by a changed text", "permission: another call"), HEADLESS_WAITS),
    "two people": ONE_CALL,
}


class AcpRunDoor(OtherAgentDoor):
    """An agent that speaks the Agent Client Protocol."""

    name = "`midturn acp run`"
    agent = AcpAgent
    lacks: ClassVar[Mapping[str, str]] = _HEADLESS


class CodexServerDoor(OtherAgentDoor):
    """Codex through its app server."""

    name = "`midturn hook codex-server`"
    agent = CodexApp
    lacks: ClassVar[Mapping[str, str]] = _HEADLESS


CANCELS = "what a server asks is for a person alone: without one it hears `cancel` under every policy but `defer`"
ONE_AT_A_TIME = "a server of the older protocol does not say for which call it asks: one runs at a time"
_ELICITED = {
    **_OURS,
    "back": NO_CONDITIONS,
    "secret": "a form of this protocol asks for no secrets",
    "inner agent": OF_A_PROGRAM,
    **dict.fromkeys(UNASKED, CANCELS),
}


class ElicitationDoor(AskerDoor):
    """A server that our assistant is a client of."""

    loop = AssistantOfALegacyServer
    name = "elicitation of an MCP server, pushed"
    shares = "the server that pushes"
    lacks: ClassVar[Mapping[str, str]] = {**_ELICITED, "two people": ONE_AT_A_TIME}

    @classmethod
    def heard(cls, outcome: Outcome) -> Outcome:
        """Add what the server made of it."""
        return Outcome(outcome.record, ServedAssistant.hears(outcome), outcome.end, outcome.result)


class ReturnedElicitationDoor(ElicitationDoor):
    """The same, in the newer protocol."""

    loop = AssistantOfAModernServer
    name = "elicitation of an MCP server, returned"
    shares = "the server that returns"
    lacks: ClassVar[Mapping[str, str]] = _ELICITED


class OpencodeDoor(Door):
    """Opencode, beside which our bridge runs."""

    name = "`midturn hook opencode`"
    lacks: ClassVar[Mapping[str, str]] = _HEADLESS

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        asker = Opencode(scene, directory)
        others = partial(Chooser, scene=scene)
        return Pair(asker, others(asker.store, None), others)

    @classmethod
    def expected(cls, story: Story) -> Outcome:
        """Put it in the agent's words."""
        outcome, scene = story.outcome, story.scene
        return Outcome(outcome.record, (Opencode.heard(outcome, () if scene.run == "ask" else scene.ask),), outcome.end)


_AT_MCP = {
    "typed result": THEIR_RESULT,
    **{story.name: NO_DELIVERY for story in STORIES if story.scene.result == "ask"},
    **{story.name: SECRETS for story in STORIES if any(asked["answer_type"]["type"] == "secret" for asked in story.scene.ask)},
    **dict.fromkeys(UNASKED, NO_POLICY_THERE),
    "inner agent": INSIDE_THERE,
    **dict.fromkeys(("asker dead, then back", "permission: asker dead, then back", "asker in another PID namespace"), WAITS_THERE),
    "review": NO_REVIEW_THERE,
}


class McpDoor(Door):
    """An agent with a server of its own, and without a dialog."""

    name = "`midturn mcp`"
    shares = "its server"
    agent: ClassVar[type[McpAgent]] = McpAgent
    lacks: ClassVar[Mapping[str, str]] = _AT_MCP

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        del directory
        talk, store = over_stdio()
        return self.met(McpAgent(scene, talk, store))

    def met(self, asker: McpAgent, person: Person | None = None) -> Pair:
        """Have a person come; by default one that answers in the store."""
        self.closing.callback(asker.stop)
        return Pair(asker, person or Latecomer(asker.store))

    @classmethod
    def heard(cls, outcome: Outcome) -> Outcome:
        """Put each call's in the agent's words."""
        words = tuple(cls.agent.hears(Outcome(outcome.record, (one,), outcome.end)) for one in outcome.words)
        return Outcome(outcome.record, words, outcome.end)


class McpHttpDoor(McpDoor):
    """An agent at a server that others use, too."""

    name = "`midturn mcp --http`"
    shares = "the server over HTTP"
    lacks: ClassVar[Mapping[str, str]] = {**_AT_MCP, **dict.fromkeys(("superseded by a changed text", "permission: another call"), SHARED)}

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        del directory
        server, store = http_server()
        talk = over_http(server)
        self.closing.callback(talk.leave)
        return self.met(LookingAgent(scene, talk, store))


class McpDialogDoor(McpDoor):
    """A person answers in the dialog of the agent that asks through our server."""

    name = "dialog of a client of `midturn mcp`"
    shares = ""  # it is in this process
    lacks: ClassVar[Mapping[str, str]] = {
        **_AT_MCP,
        **dict.fromkeys(PERMISSIONS, OWN_PERMISSIONS),
        **dict.fromkeys(ELSEWHERE_BEFORE, CLOSES),
        "nobody there: defer": SOMEBODY,
        "a form, half answered": WHOLE_FORM,
        **dict.fromkeys(("reply", "rejected with a reason"), WORDLESS),
        "cancelled": NO_END,
        "back": NO_BACK_THERE,
    }

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        store = FileStore(directory / "store")
        person = FormPerson(store)
        asker = ShownAgent(scene, person, store)
        self.closing.callback(asker.talk.leave)
        return self.met(asker, person)


CANCELS_ALL = "an editor cancels its turn as a whole, and no choice of it alone: the model reads that its call was cancelled"


class EditorDoor(Door):
    """A person answers in the editor in which our assistant runs."""

    name = "editor with `midturn acp`"
    lacks: ClassVar[Mapping[str, str]] = {
        **_ATTACHED,
        **dict.fromkeys(ELSEWHERE_BEFORE, DROPPED),
        "a form, half answered": WHOLE_FORM,
        **dict.fromkeys(("reply", "rejected with a reason", "permission: no"), WORDLESS),
        **dict.fromkeys(("permission: edit", "deliver: edit"), CHOOSES),
        **dict.fromkeys(("back", "review"), NO_BACK_THERE),
        "secret": SECRETS,
        "typed result": NO_SHAPE,
        **dict.fromkeys(("asker dead, then back", "permission: asker dead, then back"), KILLED_THERE),
        "permission: cancelled": CANCELS_ALL,
        "inner agent": OF_A_PROGRAM,
    }

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        asker = EditedAssistant(scene, directory)
        return Pair(asker, asker.person)


ANSWERERS: Sequence[type[Door]] = (
    TerminalDoor,
    PlainTerminalDoor,
    AnswerDoor,
    AnswerAtTerminalDoor,
    ReadyDoor,
    WatchDoor,
    WorkerDoor,
    DatabaseWorkerDoor,
    PageDoor,
    ApiDoor,
    TelegramDoor,
    SlackDoor,
    DiscordDoor,
    NtfyDoor,
    EmailDoor,
    MatrixDoor,
    PrompterDoor,
    StoreDoor,
    McpDialogDoor,
    EditorDoor,
)

ASKERS: Sequence[type[Door]] = (
    FunctionDoor,
    ReturningDoor,
    AskUserDoor,
    CommandDoor,
    InquirerDoor,
    PydanticDoor,
    LanggraphDoor,
    OpenaiDoor,
    ClaudeHookDoor,
    CodexHookDoor,
    GeminiHookDoor,
    QwenHookDoor,
    CopilotHookDoor,
    McpDoor,
    McpHttpDoor,
    AcpRunDoor,
    CodexServerDoor,
    OpencodeDoor,
    ElicitationDoor,
    ReturnedElicitationDoor,
)
