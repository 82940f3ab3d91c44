"""What a person does on a question's page, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from midturn.errors import AlreadyAnswered, AnswerError, DigestMismatch, NotOpen, Problem, QuestionError, StoreError
from midturn.events.open_question import Address, OpenQuestion
from midturn.events.prompt import FormSubject, Prompt, ResultSubject
from midturn.events.types import AnsweredBy, Event
from midturn.inbox.answering_session import StoredVisit
from midturn.inbox.form_session import Drafts, FormWalk, read_steps, rows_of_review
from midturn.question.answer_type import SecretType
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import Json, SecretValue
from midturn.question.question import Question
from midturn.question.reply import SCOPES, Answered, EndedTurn, Replied, Scope
from midturn.routing.rules import exact_rule, in_words, not_covered, read_run_rules
from midturn.stores.answer_service import Receipt
from midturn.stores.batch import event_ids
from midturn.stores.ending import check_ending
from midturn.terminal.prompts.answer_text import IN_SCOPE
from midturn.terminal.prompts.keys import one_line, pretty, scope
from midturn.turn.view import went_on
from midturn.turn.visit import Visit
from midturn.web.app_state import Site
from midturn.web.body import Fields
from midturn.web.controls import DecisionPage, FormPage, PageAgain, ReviewPage, ScopeChoice, ShownPage, control_of, sent_answer
from midturn.web.gate import Visitor
from midturn.web.schema_fields import reshapes

CHANGED = "This was changed after the page was shown, so nothing was recorded. Look at it again: this is what is asked now."


class PageVisit:
    """One visit to the page of an open question."""

    def __init__(self, site: Site, question: OpenQuestion, visitor: Visitor, secret_elsewhere: str = "") -> None:
        """Begin; `secret_elsewhere` says why secrets are not taken here, and where they are."""
        self._site = site
        self._secret_elsewhere = secret_elsewhere
        self._question = question
        self._visitor = visitor
        self._draft = Drafts(site.board.port, question.id, visitor.name)

    async def shown(self, carried: str | None = None, typed: Fields | None = None) -> ShownPage:
        """Return what is put on the page: of a form what comes after what it carries, or after what was kept of an earlier visit.

        Raises:
            QuestionError: A newer version asked this question, and it is not known here.
            NotOpen: It is not open any more.
            AlreadyAnswered: Another answer came first.
        """
        if self._question.kind != "tool":
            return await self._deciding(typed)
        if self._question.form is None:
            return await self._alone(typed)
        if carried is not None:
            return self._at(await self._form(read_steps(carried)), typed)
        return self._at(await self._form(await self._draft.read()), typed, is_draft=True)

    async def act(self, sent: Fields) -> Receipt | ShownPage:
        """Do what was sent; what comes next in a form is returned to be shown, unless the form is done.

        Raises:
            PageAgain: It does not fit.
            NotAllowed: This visitor may not answer it, a secret included, which no store is given.
            AlreadyAnswered: Another answer came first.
            NotOpen: The question is closed.
        """
        await self._site.board.port.admit(self._question, self._visitor.name)
        try:
            if reshapes(sent.one("act")):
                return await self._reshaped(sent)
            return await self._noted(sent.one("act"), sent) or await self._act(sent)
        except QuestionError as error:  # a name that is none
            raise PageAgain(await self.shown(sent.text("walk"), sent), error.problems) from None
        except AnswerError as error:
            problems = [Problem("", CHANGED)] if isinstance(error, DigestMismatch) else error.problems
            try:
                shown = await self.shown(sent.text("walk"), sent)
            except (AlreadyAnswered, NotOpen):  # the turn has gone on meanwhile: what was wrong is what there is to say
                raise NotOpen(str(error)) from None
            raise PageAgain(shown, tuple(problems)) from None

    async def _reshaped(self, sent: Fields) -> ShownPage:
        """Return the page with another item in a list, or one less, or as JSON; or as a form again, where the JSON can be read."""
        if sent.one("act") == "as fields" and sent.text("answer").strip():
            _read_json(sent.text("answer"))
        return await self.shown(sent.text("walk"), sent)

    async def _noted(self, act: str | None, sent: Fields) -> Receipt | None:
        """Pass the question on, or take a yes back; None where that is not what was sent."""
        store, id, user = self._site.board.port.store, self._question.id, self._visitor.name  # noqa: A001  the wire's word
        match act:
            case "pass":
                names = [name.strip() for name in sent.text("to").split(",") if name.strip()]
                receipt = await store.pass_on(id, names, user=user, via="web")
            case "take-back":
                receipt = await store.take_back(id, user=user, via="web")
            case _:
                return None
        await self._site.board.look_again()
        return receipt

    async def _act(self, sent: Fields) -> Receipt | ShownPage:
        match sent.one("act"):
            case "reply":
                return await self._leave(sent, Replied(sent.text("reply").strip() or None))
            case "end":
                return await self._leave(sent, EndedTurn())
            case _ if self._question.kind != "tool":
                return await self._decide(sent)
            case _ if self._question.form is not None:
                return await self._walk(sent)
            case _:
                return await self._answer_alone(sent)

    # A question of its own ----------------------------------------------------------------------------------------------

    async def _answer_alone(self, sent: Fields) -> Receipt:
        asked = self._question.question.asked("answer")
        if isinstance(asked.answer_type, SecretType) and sent.one("act") != "skip":
            return await self._give({"": Answered(self._secret(sent))})
        return await self._answer(value=_checked(asked, sent), reason=_reason(sent), remember=_remember(sent), scope=_scope(sent))

    async def _alone(self, typed: Fields | None) -> FormPage:
        prompt = await self._prompt()
        asked = prompt.question
        start = asked.default if prompt.prefill is UNSET else prompt.prefill
        control = control_of(asked, start, typed)
        covers, holds_on = _covers(prompt), "conversation" in prompt.scopes
        return FormPage(asked=asked, control=control, covers=covers, holds_on=holds_on, secret_elsewhere=self._elsewhere(asked))

    # A form -------------------------------------------------------------------------------------------------------------

    async def _form(self, steps: Sequence[Json]) -> FormWalk:
        return FormWalk(self._question, await self._turn(), self._site.vault, steps)

    async def _leave(self, sent: Fields, reply: Replied | EndedTurn) -> Receipt:
        """Reply, or end the turn. The answers of a form so far are recorded first, each by itself, as at a terminal: they go along."""
        in_form = self._question.kind == "tool" and self._question.form is not None
        given = (await self._form(read_steps(sent.text("walk")))).given if in_form else []
        if not given:
            return await self._answer(cancel=True) if isinstance(reply, EndedTurn) else await self._answer(reply=reply.text or "")
        who = AnsweredBy("user", via="web", user=self._visitor.name)
        store = self._site.board.port.store
        if isinstance(reply, EndedTurn):  # before any of the answers is recorded
            await check_ending(store.port, store.admission, self._question.conversation, who)
        visit = StoredVisit(store, self._question, await self._turn(), who)
        for value in given:
            await visit.take(Answered(value))
        await visit.take(reply)
        return await self._recorded(Receipt(self._question.conversation, self._question.id))

    async def _walk(self, sent: Fields) -> Receipt | ShownPage:
        walk = await self._form(read_steps(sent.text("walk")))
        prompt = walk.prompt
        match sent.one("act"), prompt:
            case "back", Prompt() if walk.is_at_its_beginning:
                return await self._answer(back=True)
            case "back", _:
                walk.back()
            case "send", Prompt(kind="review"):
                walk.send()
            case _, Prompt(kind="review") | None:
                pass
            case act, Prompt(question=question) if isinstance(question.answer_type, SecretType) and act != "skip":
                walk.answer_secret(self._secret(sent))
            case _, Prompt(question=question):
                walk.answer(_checked(question, sent))
        if walk.prompt is None:
            return await self._finish(walk)
        await self._draft.keep(walk.steps)
        return self._at(walk, None)

    def _at(self, walk: FormWalk, typed: Fields | None, *, is_draft: bool = False) -> ShownPage:
        is_draft = is_draft and bool(walk.steps)
        match walk.prompt:
            case Prompt(subject=FormSubject() as subject):
                return ReviewPage(walk.reviewed(subject), walk.carried, is_draft)
            case Prompt(question=asked) as prompt:
                return FormPage(
                    asked=asked,
                    control=control_of(asked, walk.start(prompt), typed),
                    index=prompt.index,
                    total=prompt.total,
                    can_go_back=prompt.can_go_back,
                    carried=walk.carried,
                    is_draft=is_draft,
                    secret_elsewhere=self._elsewhere(asked),
                )
            case None:
                raise NotOpen("The form asks nothing more.")

    # An approval ----------------------------------------------------------------------------------------------------------

    async def _decide(self, sent: Fields) -> Receipt:
        match sent.one("act"):
            case "approve":
                remember, digest = _kept(self._question, sent) or _remember(sent), sent.one("about") or ""
                return await self._answer(approve=True, reason=_reason(sent), remember=remember, digest=digest, scope=_scope(sent))
            case "refuse":
                return await self._answer(approve=False, reason=_reason(sent), remember=_remember(sent))
            case "back" if self._question.kind == "review":
                return await self._answer(back=True)
            case "edit" if self._question.kind == "run":
                return await self._answer(arguments=_edited(sent.text("edited")), digest=sent.one("about") or "")
            case "edit" if self._question.kind == "deliver":
                return await self._answer(content=sent.text("edited"), digest=sent.one("about") or "")
            case _:
                raise AnswerError([Problem("", "Choose what is to happen.")])

    async def _deciding(self, typed: Fields | None) -> DecisionPage:
        prompt = await self._prompt()
        edited = typed.text("edited") if typed is not None and "edited" in typed else None
        match prompt.subject:
            case ResultSubject(call, content, is_error, images):
                editable = content if edited is None else edited
                page = DecisionPage(kind="deliver", arguments=call.arguments, content=content, is_error=is_error, editable=editable)
                return replace(page, pictures=[image.media_type for image in images], about=prompt.digest)
            case FormSubject() as subject:
                return DecisionPage(kind="review", answers=rows_of_review(subject, {}), about=prompt.digest)
            case _:
                editable = pretty(prompt.arguments) if edited is None else edited
                page = DecisionPage(kind="run", arguments=prompt.arguments, covers=_covers(prompt), always=prompt.always, editable=editable)
                return replace(page, about=self._question.digest, **self._standing(prompt))

    def _standing(self, prompt: Prompt) -> dict[str, Any]:
        """Return what the page says of a permission for later calls; nothing where there is none to be had."""
        writes = self._site.board.port.store.writes_rules
        scopes: list[Scope] = [each for each in prompt.scopes if writes or each == "conversation"]
        rule = exact_rule(prompt.arguments)
        if not scopes or rule is None:
            return {}
        (read,) = read_run_rules([rule])
        tool = one_line(prompt.tool)
        choices = [ScopeChoice(each, self._where(each)) for each in scopes]
        return {"scopes": choices, "allows": in_words(read, tool), "beyond": not_covered(read, tool, prompt.arguments)}

    def _where(self, scope: Scope) -> str:
        asker = self._question.asker
        directory = asker.cwd if asker and asker.cwd else str(self._site.root or "")
        return f"in the project {directory}" if scope == "project" and directory else IN_SCOPE[scope]

    # ----------------------------------------------------------------------------------------------------------------------

    async def _prompt(self) -> Prompt:
        """Return what a person at a terminal would be shown.

        Raises:
            NotOpen: It is closed.
            AlreadyAnswered: It was answered meanwhile.
        """
        turn, asked = await self._turn(), self._question.request.event_id
        prompt = Visit(turn, asked, event_ids(), self._question.conversation).prompt()
        if prompt is None:
            raise went_on(turn, Address(self._question.conversation, asked))
        return prompt

    async def _finish(self, walk: FormWalk) -> Receipt:
        """Hand over a form that is done: to the store, or, with a secret in it, to the turn itself."""
        given = walk.answers()
        if not any(isinstance(value, SecretValue) for value in given.values()):
            return await self._answer(value=given)
        return await self._give({name: Answered(value) for name, value in given.items()})

    async def _give(self, answers: Mapping[str, Answered]) -> Receipt:
        if self._site.resumer is None:
            raise AnswerError([Problem("", self._secret_elsewhere)])
        await self._site.resumer.give(self._question, answers, self._visitor.name)
        await self._done()
        return Receipt(self._question.conversation, self._question.id, held=True)

    def _secret(self, sent: Fields) -> SecretValue:
        """Read a secret out of the one field that is never sent back."""
        if self._secret_elsewhere:
            raise AnswerError([Problem("", self._secret_elsewhere)])
        typed = sent.one("secret") or ""
        if not typed:
            raise AnswerError([Problem("", "Nothing was typed.")])
        return SecretValue(typed)

    def _elsewhere(self, asked: Question[Any]) -> str:
        return self._secret_elsewhere if isinstance(asked.answer_type, SecretType) else ""

    async def _turn(self) -> Sequence[Event]:
        return await self._site.board.port.last_turn(self._question.conversation)

    async def _answer(self, **how: Any) -> Receipt:
        return await self._recorded(await self._site.board.port.answer(self._question.id, **how, user=self._visitor.name, via="web"))

    async def _recorded(self, receipt: Receipt) -> Receipt:
        await self._done()
        if self._site.resumer:
            self._site.resumer.nudge()
        return receipt

    async def _done(self) -> None:
        if self._question.form is not None:
            with suppress(StoreError):  # it is answered: what is left of its draft is forgotten with the old ones
                await self._draft.drop()
        await self._site.board.look_again()


def _checked(question: Question[Any], sent: Fields) -> Json:
    value = sent_answer(question, sent)
    question.check(value)
    return value


def _edited(text: str) -> Json:
    return _read_json(text, "The arguments cannot be used")


def _read_json(text: str, said: str = "This cannot be used") -> Json:
    try:
        return read_json(text)
    except NotJson as error:
        raise AnswerError([Problem("", f"{said}: {error}.")]) from None


def _covers(prompt: Prompt) -> str:
    return scope(prompt) if prompt.may_remember and not prompt.always else ""


def _kept(question: OpenQuestion, sent: Fields) -> str:
    """Return which of the things was chosen that another agent offers to keep; empty where none was."""
    offered = {str(number): kept for number, kept in enumerate(question.asker.always, 1)} if question.asker else {}
    return offered.get(sent.one("remember") or "", "")


def _scope(sent: Fields) -> Scope | None:
    return next((scope for scope in SCOPES if sent.one("scope") == scope), None)


def _remember(sent: Fields) -> bool:
    return sent.one("remember") == "yes"


def _reason(sent: Fields) -> str | None:
    return sent.text("reason").strip() or None
