"""The interfaces through which the stories are played.

Each is a small class with a reason for every story that does not apply to it.
"""

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
from support.stories.agents import (
    Claude,
    Codex,
    Copilot,
    Gemini,
    HookedAgent,
    LateResponder,
    OptionChooser,
    OtherAgent,
    Qwen,
)
from support.stories.askers import (
    FunctionLoop,
    InquirerLoop,
    LanggraphLoop,
    OpenaiLoop,
    PydanticLoop,
)
from support.stories.assistants import (
    AskingModel,
    Assistant,
    Program,
    ReadyAssistant,
    WatchedAssistant,
    WorkerProgram,
    WorkerWithDatabase,
)
from support.stories.editors import EditorAssistant
from support.stories.headless import AcpAgent, CodexApp
from support.stories.mcp_interfaces import (
    FormPerson,
    LateAnswerer,
    LookingAgent,
    McpAgent,
    ShownAgent,
    http_server,
    over_http,
    over_stdio,
)
from support.stories.opencode import Opencode
from support.stories.outcome import Outcome
from support.stories.people import ApiPerson, CommandPerson, PagePerson, PrompterPerson, StorePerson
from support.stories.phone_person import with_phone
from support.stories.protocol_clients import A2aPerson, A2aProgram, AguiPerson, AguiProgram
from support.stories.scene import Asker, Pair, Person, Scene
from support.stories.servers import LegacyServerAssistant, ModernServerAssistant, ServedAssistant
from support.stories.stories import STORIES
from support.stories.story import Story
from support.stories.terminals import AnsweringTerminal, AttachedAssistant

CLOSES = "the prompt closes when the question is closed"
RUNS = "the asking process waits at the prompt and does not ask again"
SECRETS = "a secret can be entered only in the process that runs the tool"
NO_RESULTS = "tools defined in a Python program have no result policy"
NO_BACK = "a command that contains the answer has no Back; `midturn answer ID` has it"
IN_MEMORY = "Back on the page changes unsent answers, which are not recorded"
OVER = "the message is closed when the question is closed"
ANSWERS_ALONE = (
    "a message accepts only an answer and a reason; use the page or a terminal for the rest"
)
WITH_THE_PROGRAM = "the prompter ends with its program, so it cannot continue later"

NO_CONDITIONS = "questions asked at the same time have no Back"
ASKED_THERE = "if the hook is killed, the agent's own dialog asks"
NO_POLICY_AT_A_HOOK = "a hook has no detached policy; its questions wait for a person"
NO_DELIVERY = "external agents deliver results without asking midturn"
SHARED = "the shared server cannot tell its clients apart, so the earlier question stays open"
OWN_PERMISSIONS = "the agent asks for permissions at its own prompt, or not at all"
WHOLE_FORM = "the dialog shows a form as a whole, so there are no partial answers"
WORDLESS = "the dialog accepts an answer or a refusal, but no free text"
NO_END = "closing the dialog leaves the question open"
NO_BACK_THERE = "the dialog cannot return to a submitted form"
NO_REVIEW_THERE = "forms from external agents have no review"

THERE = "the person answers in the process that asks"
SOMEBODY = "the person at this prompt is attached"
WAITS_THERE = "killed and remote clients and servers have separate tests"
NO_POLICY_THERE = "the server has no detached policy; its questions wait for a person"
FOR_A_PERSON = (
    "only a person may answer the model's questions; every policy except `defer` refuses them"
)
IN_ITS_MEMORY = "this test keeps the graph's checkpoints in memory"

OF_A_PROGRAM = "the tools are configured commands; only Python tools can run an agent"
NOT_OURS = "in an external loop, an agent inside a tool is a separate turn"
THEIR_RESULT = "the external loop calls its model itself; midturn does not read the final reply"
INSIDE_THERE = "midturn does not see agents inside the tools of external agents"

NO_PERMISSION = "`ask_user` needs no permission, and its result is the user's answer"
STAYS = "the question is in the call's arguments, which do not change"
CALL_STAYS = (
    "a waiting call in midturn's own agent keeps its arguments, so it cannot become another call"
)

_DELIVERY = dict.fromkeys(("deliver: yes", "deliver: no", "deliver: edit"), NO_RESULTS)
PERMISSIONS = [story.name for story in STORIES if story.scene.run == "ask"]
_OURS = {"permission: the agent makes another call": CALL_STAYS}
UNASKED = [story.name for story in STORIES if story.scene.detached != "defer"]
_NOBODY = [story.name for story in STORIES if story.name.startswith("detached: ")]
ELSEWHERE_BEFORE = (
    *(
        "answered after the turn ended",
        "answered twice",
        "answered twice at the same time",
        "question text changed",
    ),
    *("permission: answered after the turn ended", "permission: answered twice"),
)
_ATTACHED = {
    **_OURS,
    **dict.fromkeys(ELSEWHERE_BEFORE, CLOSES),
    "question asked twice": RUNS,
    "asking process in another PID namespace": THERE,
    **dict.fromkeys(_NOBODY, SOMEBODY),
}
ONE_CALL = "this loop makes only one call; two calls have separate tests"
NO_REVIEW = "only forms from `ask_user` have a review"
NO_POLICY = "an external loop has no policy for calls and results"
_NO_ARGUMENTS = {"permission: edit": "this function has no arguments to edit"}
_FOREIGN = {
    **_DELIVERY,
    **dict.fromkeys((*PERMISSIONS, *_DELIVERY), NO_POLICY),
    "secret": SECRETS,
    "two calls, two people": ONE_CALL,
    "review": NO_REVIEW,
    "agent inside a tool": NOT_OURS,
    "typed result of the turn": THEIR_RESULT,
}


class Interface:
    """A way to answer or to ask. `lacks` contains, by story, the reason why the story does not
    apply.

    `part` is the required software that is not Python. `shares` names a process that all its
    stories share.
    """

    name: ClassVar[str]
    lacks: ClassVar[Mapping[str, str]] = {}
    part: ClassVar[str] = ""
    shares: ClassVar[str] = ""

    def __init__(self, closing: ExitStack) -> None:
        """Prepare the interface. `closing` closes its resources at the end."""
        self.closing = closing

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        """Set up a story in its own directory."""
        raise NotImplementedError

    @staticmethod
    def missing() -> str:
        """Return why this machine lacks the required part, or an empty string if it has it."""
        return ""

    @classmethod
    def expected(cls, story: Story) -> Outcome:
        """Return the expected outcome of a story at this interface."""
        return cls.outcome_as_read(story.outcome)

    @classmethod
    def outcome_as_read(cls, outcome: Outcome) -> Outcome:
        """Return an outcome with the text that this asker receives. The default is the text that
        midturn's own model receives.
        """
        return outcome


class StoreInterface(Interface):
    """A program answers its agent's question in the store and continues the turn."""

    name = "`store.answer`"
    lacks: ClassVar[Mapping[str, str]] = {**_OURS, **_DELIVERY, "secret": SECRETS}

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        asker = Program(scene, directory)
        return Pair(asker, StorePerson(asker.store))


class PrompterInterface(Interface):
    """A program shows a question when its agent asks it."""

    name = "`Prompter`"
    lacks: ClassVar[Mapping[str, str]] = {
        **_DELIVERY,
        **_ATTACHED,
        **dict.fromkeys(
            (
                "partly answered form",
                "asking process killed and restarted",
                "permission: asking process killed and restarted",
            ),
            WITH_THE_PROGRAM,
        ),
    }

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        person = PrompterPerson()
        asker = Program(scene, directory, person.prompter)
        return Pair(person.attached_to(asker), person)


class AnswerInterface(Interface):
    """A person answers with a command that contains the answer."""

    name = "`midturn answer ID VALUE`"
    lacks: ClassVar[Mapping[str, str]] = {
        **_OURS,
        "Back": NO_BACK,
        "review": NO_BACK,
        "secret": SECRETS,
    }

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        assistant = None if scene.inner else Assistant(scene, directory)
        asker = assistant or Program(scene, directory)
        user = assistant.user if assistant else CommandLine(directory)
        return Pair(asker, CommandPerson(asker.store, user, str(directory / "store")))


class TerminalInterface(Interface):
    """A person answers at the terminal at which the turn runs."""

    name = "terminal, rich"
    lacks: ClassVar[Mapping[str, str]] = {**_ATTACHED, "agent inside a tool": OF_A_PROGRAM}
    plain: ClassVar[bool] = False

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        asker = AttachedAssistant(scene, directory, plain=self.plain)
        self.closing.callback(asker.person.leave)
        return Pair(asker, asker.person)


class PlainTerminalInterface(TerminalInterface):
    """The same in plain mode."""

    name = "terminal, plain"
    plain = True


class AnswerAtTerminalInterface(Interface):
    """A person is asked at another terminal while no process runs the turn."""

    name = "`midturn answer ID`"
    lacks: ClassVar[Mapping[str, str]] = _OURS

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        asker = AnsweringTerminal(scene, directory, plain=True)
        self.closing.callback(asker.person.leave)
        return Pair(asker, asker.person)


class ReadyInterface(Interface):
    """Turns are continued by a command that runs once."""

    name = "`resume --ready`"
    lacks: ClassVar[Mapping[str, str]] = {
        **_OURS,
        "secret": SECRETS,
        "agent inside a tool": OF_A_PROGRAM,
    }

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        asker = ReadyAssistant(scene, directory)
        return Pair(asker, StorePerson(asker.store))


class WatchInterface(Interface):
    """Turns are continued by a command that keeps running."""

    name = "`resume --ready --watch`"
    lacks: ClassVar[Mapping[str, str]] = {
        **_OURS,
        "secret": SECRETS,
        "agent inside a tool": OF_A_PROGRAM,
    }

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        asker = WatchedAssistant(scene, directory)
        self.closing.callback(asker.stop)
        return Pair(asker, StorePerson(asker.store))


class WorkerInterface(Interface):
    """Turns are continued by a worker."""

    name = "worker, files"
    lacks: ClassVar[Mapping[str, str]] = {**_OURS, **_DELIVERY, "secret": SECRETS}
    worked: ClassVar[type[WorkerProgram]] = WorkerProgram

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        asker = self.worked(scene, directory)
        self.closing.callback(asker.stop)
        return Pair(asker, StorePerson(asker.store))


class DatabaseWorkerInterface(WorkerInterface):
    """The same with a database."""

    name = "worker, PostgreSQL"
    part = "PostgreSQL"
    missing = staticmethod(no_postgres)
    worked = WorkerWithDatabase


class PageInterface(Interface):
    """A person answers on the page, with forms and without a script."""

    name = "page"
    lacks: ClassVar[Mapping[str, str]] = {**_OURS, "Back": IN_MEMORY, "review": IN_MEMORY}

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        is_secret = any(question["answer_type"]["type"] == "secret" for question in scene.ask)
        asker = (
            Program(scene, directory) if is_secret or scene.inner else Assistant(scene, directory)
        )
        pages = inbox(
            asker.agent if isinstance(asker, Program) else asker.store, user=ada
        )  # a secret is passed to the turn directly
        return Pair(asker, PagePerson(asker.store, self.closing.enter_context(browsing(pages))))


class ApiInterface(Interface):
    """A program answers through the API of the page."""

    name = "API"
    lacks: ClassVar[Mapping[str, str]] = {**_OURS, "secret": SECRETS}

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        asker = Program(scene, directory) if scene.inner else Assistant(scene, directory)
        return Pair(
            asker,
            ApiPerson(
                asker.store, self.closing.enter_context(browsing(inbox(asker.store, user=ada)))
            ),
        )


class ChannelInterface(Interface):
    """A person answers on the phone, where a channel shows the question."""

    lacks: ClassVar[Mapping[str, str]] = {
        **_OURS,
        "secret": SECRETS,
        "Back": IN_MEMORY,
        "review": IN_MEMORY,
        **dict.fromkeys((*ELSEWHERE_BEFORE, *UNASKED), OVER),
        **dict.fromkeys(
            (
                "reply",
                "turn ended by the person",
                "permission: turn ended by the person",
                "permission: edit",
                "deliver: edit",
            ),
            ANSWERS_ALONE,
        ),
    }
    kind: ClassVar[str]

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        asker = Program(scene, directory) if scene.inner else Assistant(scene, directory)
        return Pair(asker, self.closing.enter_context(with_phone(self.kind, asker.store)))


class TelegramInterface(ChannelInterface):
    name = "Telegram"
    kind = "telegram"


class SlackInterface(ChannelInterface):
    name = "Slack"
    kind = "slack"


class DiscordInterface(ChannelInterface):
    name = "Discord"
    kind = "discord"


class NtfyInterface(ChannelInterface):
    name = "ntfy"
    kind = "ntfy"


class EmailInterface(ChannelInterface):
    name = "e-mail"
    kind = "email"
    part = "channels"
    missing = staticmethod(partial(missing, "email"))


class MatrixInterface(ChannelInterface):
    name = "Matrix"
    kind = "matrix"
    part = "channels"
    missing = staticmethod(partial(missing, "matrix"))


class AskerInterface(Interface):
    """A way to ask. A program answers in the store, and the loop is entered again."""

    loop: ClassVar[Callable[[Scene, Path], Asker]]

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        asker = type(self).loop(scene, directory)
        return Pair(asker, StorePerson(asker.store))


class FunctionInterface(AskerInterface):
    """A function of a program that asks in the middle."""

    name = "a Python function as a tool"
    loop = FunctionLoop
    lacks: ClassVar[Mapping[str, str]] = {
        **_OURS,
        **_DELIVERY,
        "secret": SECRETS,
        "two calls, two people": ONE_CALL,
        "review": NO_REVIEW,
        **_NO_ARGUMENTS,
    }


class ReturningInterface(AskerInterface):
    """A tool that returns its questions and is run again."""

    name = "a Python tool that returns its questions"
    loop = Program
    lacks: ClassVar[Mapping[str, str]] = {**_OURS, **_DELIVERY, "secret": SECRETS}


class AskUserInterface(AskerInterface):
    """The model itself asks."""

    name = "`ask_user`"
    loop = AskingModel
    lacks: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys((*PERMISSIONS, *_DELIVERY), NO_PERMISSION),
        "secret": SECRETS,
        "two calls, two people": ONE_CALL,
        "question text changed": STAYS,
        **dict.fromkeys(UNASKED, FOR_A_PERSON),
    }


class CommandInterface(AskerInterface):
    """A configured command asks."""

    name = "a configured command"
    loop = Assistant
    lacks: ClassVar[Mapping[str, str]] = {
        **_OURS,
        "secret": SECRETS,
        "agent inside a tool": OF_A_PROGRAM,
    }


class InquirerInterface(AskerInterface):
    """A custom loop asks."""

    name = "`Inquirer`"
    loop = InquirerLoop
    lacks: ClassVar[Mapping[str, str]] = _FOREIGN


class PydanticInterface(AskerInterface):
    name = "pydantic-ai"
    loop = PydanticLoop
    lacks: ClassVar[Mapping[str, str]] = _FOREIGN


class LanggraphInterface(AskerInterface):
    name = "LangGraph"
    loop = LanggraphLoop
    lacks: ClassVar[Mapping[str, str]] = {
        **_FOREIGN,
        "asking process killed and restarted": IN_ITS_MEMORY,
    }


class OpenaiInterface(AskerInterface):
    name = "OpenAI Agents SDK"
    loop = OpenaiLoop
    lacks: ClassVar[Mapping[str, str]] = _FOREIGN


class OtherAgentInterface(Interface):
    """An external agent that waits for its answer and reads it in its own format."""

    agent: ClassVar[type[OtherAgent]]

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        asker = self.agent(scene, directory)
        return Pair(asker, LateResponder(asker))

    @classmethod
    def outcome_as_read(cls, outcome: Outcome) -> Outcome:
        """Return the outcome in the agent's format."""
        return Outcome(outcome.record, (cls.agent.text_read(outcome),), outcome.end)


_AT_A_HOOK = {
    "typed result of the turn": THEIR_RESULT,
    **{story.name: NO_DELIVERY for story in STORIES if story.scene.result == "ask"},
    **{
        story.name: SECRETS
        for story in STORIES
        if any(asked["answer_type"]["type"] == "secret" for asked in story.scene.ask)
    },
    **dict.fromkeys(UNASKED, NO_POLICY_AT_A_HOOK),
    "agent inside a tool": INSIDE_THERE,
    "review": NO_REVIEW_THERE,
    "Back": NO_CONDITIONS,
}


class HookInterface(Interface):
    """The hook of an external agent, which asks for permission or forwards the model's
    questions.
    """

    agent: ClassVar[type[HookedAgent]]
    lacks: ClassVar[Mapping[str, str]] = _AT_A_HOOK

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        asker = self.agent(scene, directory)
        self.closing.callback(asker.stop)
        others = partial(OptionChooser, scene=scene)
        return Pair(asker, others(asker.store, None), others)

    @classmethod
    def expected(cls, story: Story) -> Outcome:
        """Return the outcome of each call in the agent's format."""
        outcome, scene = story.outcome, story.scene
        asked = ((), ()) if scene.run == "ask" else (scene.changed or scene.ask, scene.second)
        calls = zip(outcome.words, asked, strict=False)
        words = tuple(
            cls.agent.text_read(Outcome(outcome.record, (one,), outcome.end), questions)
            for one, questions in calls
        )
        return Outcome(outcome.record, words, outcome.end)


class ClaudeHookInterface(HookInterface):
    name = "Hook for Claude Code"
    agent = Claude


class CodexHookInterface(HookInterface):
    name = "Hook for Codex"
    agent = Codex


class GeminiHookInterface(HookInterface):
    name = "Hook for Gemini CLI"
    agent = Gemini
    lacks: ClassVar[Mapping[str, str]] = {
        **_AT_A_HOOK,
        "asking process killed and restarted": ASKED_THERE,
    }


class QwenHookInterface(HookInterface):
    name = "Hook for Qwen Code"
    agent = Qwen


class CopilotHookInterface(HookInterface):
    name = "Hook for Copilot CLI"
    agent = Copilot


HEADLESS_WAITS = "the agent waits and does not ask another question"
KILLED_THERE = "killed and remote agents have separate tests"
CHOOSES = "the options in an editor do not include edits; use another interface"
NO_SHAPE = "a prompt in an editor cannot request a result type"
DROPPED = "late answers from an editor's dialog are ignored"
_HEADLESS = {
    "typed result of the turn": THEIR_RESULT,
    **{story.name: NO_DELIVERY for story in STORIES if story.scene.result == "ask"},
    **{
        story.name: SECRETS
        for story in STORIES
        if any(asked["answer_type"]["type"] == "secret" for asked in story.scene.ask)
    },
    **dict.fromkeys(UNASKED, NO_POLICY_THERE),
    "agent inside a tool": INSIDE_THERE,
    **dict.fromkeys(
        (
            "asking process killed and restarted",
            "permission: asking process killed and restarted",
            "asking process in another PID namespace",
        ),
        KILLED_THERE,
    ),
    "review": NO_REVIEW_THERE,
    "Back": NO_CONDITIONS,
    **dict.fromkeys(
        ("question text changed", "permission: the agent makes another call"), HEADLESS_WAITS
    ),
    "two calls, two people": ONE_CALL,
}


class AcpRunInterface(OtherAgentInterface):
    """An agent that uses the Agent Client Protocol."""

    name = "`midturn acp run`"
    agent = AcpAgent
    lacks: ClassVar[Mapping[str, str]] = _HEADLESS


class CodexServerInterface(OtherAgentInterface):
    """Codex through its app server."""

    name = "`midturn hook codex-server`"
    agent = CodexApp
    lacks: ClassVar[Mapping[str, str]] = _HEADLESS


CANCELS = "only a person may answer an MCP server; every policy except `defer` sends `cancel`"
ONE_AT_A_TIME = (
    "servers with the older protocol do not identify the call, so calls run one at a time"
)
_ELICITED = {
    **_OURS,
    "Back": NO_CONDITIONS,
    "secret": "forms of this protocol cannot ask for secrets",
    "agent inside a tool": OF_A_PROGRAM,
    **dict.fromkeys(UNASKED, CANCELS),
}


class ElicitationInterface(AskerInterface):
    """An MCP server whose client is midturn's agent."""

    loop = LegacyServerAssistant
    name = "elicitation from an MCP server, pushed"
    shares = "the server that pushes"
    lacks: ClassVar[Mapping[str, str]] = {**_ELICITED, "two calls, two people": ONE_AT_A_TIME}

    @classmethod
    def outcome_as_read(cls, outcome: Outcome) -> Outcome:
        """Return the outcome with the server's result for the answer."""
        return Outcome(
            outcome.record, ServedAssistant.text_read(outcome), outcome.end, outcome.result
        )


class ReturnedElicitationInterface(ElicitationInterface):
    """The same with the newer protocol version."""

    loop = ModernServerAssistant
    name = "elicitation from an MCP server, returned"
    shares = "the server that returns"
    lacks: ClassVar[Mapping[str, str]] = _ELICITED


class OpencodeInterface(Interface):
    """opencode, with our bridge running next to it."""

    name = "`midturn hook opencode`"
    lacks: ClassVar[Mapping[str, str]] = _HEADLESS

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        asker = Opencode(scene, directory)
        others = partial(OptionChooser, scene=scene)
        return Pair(asker, others(asker.store, None), others)

    @classmethod
    def expected(cls, story: Story) -> Outcome:
        """Return the outcome in the agent's format."""
        outcome, scene = story.outcome, story.scene
        return Outcome(
            outcome.record,
            (Opencode.response(outcome, () if scene.run == "ask" else scene.ask),),
            outcome.end,
        )


_AT_MCP = {
    "typed result of the turn": THEIR_RESULT,
    **{story.name: NO_DELIVERY for story in STORIES if story.scene.result == "ask"},
    **{
        story.name: SECRETS
        for story in STORIES
        if any(asked["answer_type"]["type"] == "secret" for asked in story.scene.ask)
    },
    **dict.fromkeys(UNASKED, NO_POLICY_THERE),
    "agent inside a tool": INSIDE_THERE,
    **dict.fromkeys(
        (
            "asking process killed and restarted",
            "permission: asking process killed and restarted",
            "asking process in another PID namespace",
        ),
        WAITS_THERE,
    ),
    "review": NO_REVIEW_THERE,
}


class McpInterface(Interface):
    """An agent with its own server and without a dialog."""

    name = "`midturn mcp`"
    shares = "its server"
    agent: ClassVar[type[McpAgent]] = McpAgent
    lacks: ClassVar[Mapping[str, str]] = _AT_MCP

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        del directory
        talk, store = over_stdio()
        return self.pair_with(McpAgent(scene, talk, store))

    def pair_with(self, asker: McpAgent, person: Person | None = None) -> Pair:
        """Return a pair with `person`, by default one who answers in the store."""
        self.closing.callback(asker.stop)
        return Pair(asker, person or LateAnswerer(asker.store))

    @classmethod
    def outcome_as_read(cls, outcome: Outcome) -> Outcome:
        """Return the outcome of each call in the agent's format."""
        words = tuple(
            cls.agent.text_read(Outcome(outcome.record, (one,), outcome.end))
            for one in outcome.words
        )
        return Outcome(outcome.record, words, outcome.end)


class McpHttpInterface(McpInterface):
    """An agent at a server that other clients also use."""

    name = "`midturn mcp --http`"
    shares = "the server over HTTP"
    lacks: ClassVar[Mapping[str, str]] = {
        **_AT_MCP,
        **dict.fromkeys(
            ("question text changed", "permission: the agent makes another call"), SHARED
        ),
    }

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        del directory
        server, store = http_server()
        talk = over_http(server)
        self.closing.callback(talk.leave)
        return self.pair_with(LookingAgent(scene, talk, store))


class McpDialogInterface(McpInterface):
    """A person answers in the dialog of the agent that asks through our server."""

    name = "dialog in a client of `midturn mcp`"
    shares = ""  # the server runs in this process
    lacks: ClassVar[Mapping[str, str]] = {
        **_AT_MCP,
        **dict.fromkeys(PERMISSIONS, OWN_PERMISSIONS),
        **dict.fromkeys(ELSEWHERE_BEFORE, CLOSES),
        "detached: defer": SOMEBODY,
        "partly answered form": WHOLE_FORM,
        **dict.fromkeys(("reply", "answered no, with a reason"), WORDLESS),
        "turn ended by the person": NO_END,
        "Back": NO_BACK_THERE,
    }

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        store = FileStore(directory / "store")
        person = FormPerson(store)
        asker = ShownAgent(scene, person, store)
        self.closing.callback(asker.talk.leave)
        return self.pair_with(asker, person)


CANCELS_ALL = "an editor can only cancel the whole turn"


class EditorInterface(Interface):
    """A person answers in the editor in which midturn's agent runs."""

    name = "editor with `midturn acp`"
    lacks: ClassVar[Mapping[str, str]] = {
        **_ATTACHED,
        **dict.fromkeys(ELSEWHERE_BEFORE, DROPPED),
        "partly answered form": WHOLE_FORM,
        **dict.fromkeys(("reply", "answered no, with a reason", "permission: no"), WORDLESS),
        **dict.fromkeys(("permission: edit", "deliver: edit"), CHOOSES),
        **dict.fromkeys(("Back", "review"), NO_BACK_THERE),
        "secret": SECRETS,
        "typed result of the turn": NO_SHAPE,
        **dict.fromkeys(
            (
                "asking process killed and restarted",
                "permission: asking process killed and restarted",
            ),
            KILLED_THERE,
        ),
        "permission: turn ended by the person": CANCELS_ALL,
        "agent inside a tool": OF_A_PROGRAM,
    }

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        asker = EditorAssistant(scene, directory)
        return Pair(asker, asker.person)


NO_SCHEMA = "a message of the protocol has no schema for the result"
NO_BACK_IN_A_FORM = "the front end shows a form as a whole and sends it once"
NO_SECRETS = "the protocol never carries secrets"
CANCELS_TASK = "a client cancels the whole task, not one question"


class AguiInterface(Interface):
    """A person answers in a front end that speaks AG-UI."""

    name = "front end with AG-UI"
    lacks: ClassVar[Mapping[str, str]] = {
        **_OURS,
        **_DELIVERY,
        "typed result of the turn": NO_SCHEMA,
        "asking process in another PID namespace": WAITS_THERE,
        "Back": NO_BACK_IN_A_FORM,
        "review": NO_BACK_IN_A_FORM,
    }

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        asker = AguiProgram(scene, directory)
        return Pair(asker, AguiPerson(asker.store, asker.client))


class A2aInterface(Interface):
    """A client that speaks A2A answers for a person."""

    name = "client with A2A"
    lacks: ClassVar[Mapping[str, str]] = {
        **_OURS,
        **_DELIVERY,
        "typed result of the turn": NO_SCHEMA,
        "asking process in another PID namespace": WAITS_THERE,
        "secret": NO_SECRETS,
        "permission: turn ended by the person": CANCELS_TASK,
    }

    def set_up(self, scene: Scene, directory: Path) -> Pair:
        asker = A2aProgram(scene, directory)
        return Pair(asker, A2aPerson(asker.store, asker.client))


ANSWERERS: Sequence[type[Interface]] = (
    TerminalInterface,
    PlainTerminalInterface,
    AnswerInterface,
    AnswerAtTerminalInterface,
    ReadyInterface,
    WatchInterface,
    WorkerInterface,
    DatabaseWorkerInterface,
    PageInterface,
    ApiInterface,
    TelegramInterface,
    SlackInterface,
    DiscordInterface,
    NtfyInterface,
    EmailInterface,
    MatrixInterface,
    PrompterInterface,
    StoreInterface,
    McpDialogInterface,
    EditorInterface,
    AguiInterface,
    A2aInterface,
)

ASKERS: Sequence[type[Interface]] = (
    FunctionInterface,
    ReturningInterface,
    AskUserInterface,
    CommandInterface,
    InquirerInterface,
    PydanticInterface,
    LanggraphInterface,
    OpenaiInterface,
    ClaudeHookInterface,
    CodexHookInterface,
    GeminiHookInterface,
    QwenHookInterface,
    CopilotHookInterface,
    McpInterface,
    McpHttpInterface,
    AcpRunInterface,
    CodexServerInterface,
    OpencodeInterface,
    ElicitationInterface,
    ReturnedElicitationInterface,
)
