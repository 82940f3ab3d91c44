"""What a person does on a question's page, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, assert_never

from msgspec import Struct

from midturn.core.form import Ask, Completed, Review
from midturn.core.json_text import NotJson, read_json
from midturn.core.json_value import Json
from midturn.core.prompt import AnswersSubject
from midturn.core.question import Question
from midturn.core.question.answer_type import SecretType
from midturn.core.reply import Answered
from midturn.core.secret import SecretValue
from midturn.core.stream import OpenQuestion, reviewed_answers
from midturn.errors import AnswerError, Problem
from midturn.prompts.content import pretty
from midturn.store.outside_answers import Receipt
from midturn.web import controls
from midturn.web.access import Visitor
from midturn.web.body import Fields
from midturn.web.controls import Control
from midturn.web.site import Site
from midturn.web.walk import FormWalk


class Asking(Struct, frozen=True, kw_only=True):
    """A question as it is put on the page; `carried` is what a form has come to."""

    asked: Question[Any]
    control: Control
    index: int = 1
    total: int = 1
    can_go_back: bool = False
    carried: str = ""
    secret_elsewhere: str = ""


class Reviewing(Struct, frozen=True):
    """All answers of a form once more."""

    answers: list[tuple[Question[Any], Json]]
    carried: str


class Deciding(Struct, frozen=True, kw_only=True):
    """A call, a result or recorded answers to be approved; `editable` is what may be changed, as text."""

    kind: str
    arguments: Json = None
    content: str = ""
    is_error: bool = False
    answers: AnswersSubject | None = None
    editable: str | None = None


Shown: TypeAlias = Asking | Reviewing | Deciding


class Misfit(Exception):  # noqa: N818  it says what the answer is
    """What was sent does not do; `shown` is the page to show again, `problems` say why."""

    def __init__(self, shown: Shown, problems: tuple[Problem, ...]) -> None:
        self.shown = shown
        self.problems = problems
        super().__init__("\n".join(map(str, problems)))


class Answering:
    """One visit to the page of an open question."""

    def __init__(self, site: Site, question: OpenQuestion, visitor: Visitor, secret_elsewhere: str = "") -> None:
        """Begin; `secret_elsewhere` says why secrets are not taken here, and where they are."""
        self._site = site
        self._secret_elsewhere = secret_elsewhere
        self._question = question
        self._visitor = visitor

    async def shown(self, carried: str = "", typed: Fields | None = None) -> Shown:
        """Return what is put on the page.

        Raises:
            QuestionError: A newer version asked this question, and it is not known here.
        """
        if self._question.kind != "tool":
            return await self._deciding(typed)
        if self._question.form is None:
            return self._alone(typed)
        return self._at(FormWalk(self._question, await self._turn(), self._site.vault, carried), typed)

    async def act(self, sent: Fields) -> Receipt | Shown:
        """Do what was sent; what comes next in a form is returned to be shown, unless the form is done.

        Raises:
            Misfit: It does not fit.
            AlreadyAnswered: Somebody was first.
            NotOpen: The question is closed.
        """
        try:
            return await self._act(sent)
        except AnswerError as error:
            raise Misfit(await self.shown(sent.text("walk"), sent), error.problems) from None

    async def _act(self, sent: Fields) -> Receipt | Shown:
        match sent.one("act"):
            case "reply":
                return await self._answer(reply=sent.text("reply"))
            case "end":
                return await self._answer(cancel=True)
            case _ if self._question.kind != "tool":
                return await self._decide(sent)
            case _ if self._question.form is not None:
                return await self._walk(sent)
            case _:
                return await self._answer_alone(sent)

    # A question of its own ----------------------------------------------------------------------------------------------

    async def _answer_alone(self, sent: Fields) -> Receipt:
        asked = self._asked()
        if isinstance(asked.answer_type, SecretType) and sent.one("act") != "skip":
            return await self._give({"": Answered(self._secret(sent))})
        return await self._answer(value=_checked(asked, sent), reason=_reason(sent))

    def _asked(self) -> Question[Any]:
        return self._question.question.asked("answer")

    def _alone(self, typed: Fields | None) -> Asking:
        asked = self._asked()
        control = controls.control(asked, asked.default, typed)
        return Asking(asked=asked, control=control, secret_elsewhere=self._elsewhere(asked))

    # A form -------------------------------------------------------------------------------------------------------------

    async def _walk(self, sent: Fields) -> Receipt | Shown:
        walk = FormWalk(self._question, await self._turn(), self._site.vault, sent.text("walk"))
        step = walk.step
        match sent.one("act"), step:
            case "back", _:
                walk.back()
            case "send", Review(answers):
                return await self._finish(walk, answers)
            case act, Ask(question) if isinstance(question.answer_type, SecretType) and act != "skip":
                walk.answer_secret(self._secret(sent))
            case _, Ask(question):
                walk.answer(_checked(question, sent))
            case _:
                pass
        if isinstance(done := walk.step, Completed):
            return await self._finish(walk, done.answers)
        return self._at(walk, None)

    def _at(self, walk: FormWalk, typed: Fields | None) -> Shown:
        match walk.step:
            case Ask() as ask:
                start = walk.start(ask)
                return Asking(
                    asked=ask.question,
                    control=controls.control(ask.question, start, typed),
                    index=ask.index,
                    total=ask.total,
                    can_go_back=ask.can_go_back,
                    carried=walk.carried,
                    secret_elsewhere=self._elsewhere(ask.question),
                )
            case Review(answers) | Completed(answers):
                return Reviewing(walk.shown(answers), walk.carried)
            case _ as other:
                assert_never(other)

    # An approval ----------------------------------------------------------------------------------------------------------

    async def _decide(self, sent: Fields) -> Receipt:
        match sent.one("act"):
            case "approve":
                return await self._answer(approve=True, reason=_reason(sent))
            case "refuse":
                return await self._answer(approve=False, reason=_reason(sent))
            case "edit" if self._question.kind == "run":
                return await self._answer(arguments=_edited(sent.text("edited")))
            case "edit" if self._question.kind == "deliver":
                return await self._answer(content=sent.text("edited"))
            case _:
                raise AnswerError([Problem("", "Choose what is to happen.")])

    async def _deciding(self, typed: Fields | None) -> Deciding:
        question, request = self._question, self._question.request
        edited = typed.text("edited") if typed is not None and "edited" in typed else None
        match question.kind:
            case "deliver":
                content = getattr(request, "content", None) or ""
                return Deciding(
                    kind="deliver",
                    arguments=question.arguments,
                    content=content,
                    is_error=bool(getattr(request, "is_error", False)),
                    editable=content if edited is None else edited,
                )
            case "review":
                return Deciding(kind="review", answers=reviewed_answers(request.call, await self._turn()))
            case _:
                editable = pretty(question.arguments) if edited is None else edited
                return Deciding(kind="run", arguments=question.arguments, editable=editable)

    # ----------------------------------------------------------------------------------------------------------------------

    async def _finish(self, walk: FormWalk, answers: Mapping[str, Any]) -> Receipt:
        """Hand over a form that is done: to the store, or, with a secret in it, to the turn itself."""
        given = walk.answers(answers)
        if not any(isinstance(value, SecretValue) for value in given.values()):
            return await self._answer(value=given)
        return await self._give({name: Answered(value) for name, value in given.items()})

    async def _give(self, answers: Mapping[str, Answered]) -> Receipt:
        if self._site.resumer is None:
            raise AnswerError([Problem("", self._secret_elsewhere)])
        await self._site.resumer.give(self._question, answers, self._visitor.name)
        await self._site.board.look()
        return Receipt(self._question.conversation, self._question.id, held=True)

    def _secret(self, sent: Fields) -> SecretValue:
        """Read a secret out of the one field that nobody sends back."""
        if self._secret_elsewhere:
            raise AnswerError([Problem("", self._secret_elsewhere)])
        typed = sent.one("secret") or ""
        if not typed:
            raise AnswerError([Problem("", "Nothing was typed.")])
        return SecretValue(typed)

    def _elsewhere(self, asked: Question[Any]) -> str:
        return self._secret_elsewhere if isinstance(asked.answer_type, SecretType) else ""

    async def _turn(self) -> Any:
        return await self._site.board.port.last_turn(self._question.conversation)

    async def _answer(self, **how: Any) -> Receipt:
        receipt = await self._site.board.port.answer(self._question.id, **how, user=self._visitor.name, via="web")
        await self._site.board.look()
        if self._site.resumer:
            self._site.resumer.nudge()
        return receipt


def _checked(question: Question[Any], sent: Fields) -> Json:
    value = controls.answer(question, sent)
    question.check(value)
    return value


def _edited(text: str) -> Json:
    try:
        return read_json(text)
    except NotJson as error:
        raise AnswerError([Problem("", f"The arguments are {error}.")]) from None


def _reason(sent: Fields) -> str | None:
    return sent.text("reason").strip() or None
