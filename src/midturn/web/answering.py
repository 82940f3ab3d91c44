"""Handles actions on the page of a question: answers, approvals, replies, reassignments, and steps
of a form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from midturn.errors import (
    AlreadyAnswered,
    AnswerError,
    DigestMismatch,
    NotOpen,
    Problem,
    QuestionError,
    StoreError,
)
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
from midturn.routing.rules import describe_rule, exact_rule, not_covered, read_run_rules
from midturn.stores.answer_service import Receipt
from midturn.stores.batch import event_ids
from midturn.stores.ending import check_ending
from midturn.terminal.prompts.answer_text import IN_SCOPE
from midturn.terminal.prompts.keys import one_line, pretty, scope
from midturn.turn.view import went_on
from midturn.turn.visit import Visit
from midturn.web.app_state import AppState
from midturn.web.body import Fields
from midturn.web.controls import (
    DecisionPage,
    FormPage,
    PageAgain,
    ReviewPage,
    ScopeChoice,
    ShownPage,
    control_of,
    sent_answer,
)
from midturn.web.request_checks import Visitor
from midturn.web.schema_fields import changes_layout

CHANGED = (
    "This question changed after the page was loaded, so your answer was not saved. Review the new"
    " version below."
)


class PageVisit:
    """A visitor's request to the page of an open question."""

    def __init__(
        self, site: AppState, question: OpenQuestion, visitor: Visitor, secret_elsewhere: str = ""
    ) -> None:
        """Prepare to handle the request.

        `secret_elsewhere` is the reason why this page does not accept secrets, or empty if it
        accepts them.
        """
        self._site = site
        self._secret_elsewhere = secret_elsewhere
        self._question = question
        self._visitor = visitor
        self._draft = Drafts(site.board.port, question.id, visitor.name)

    async def shown(self, carried: str | None = None, typed: Fields | None = None) -> ShownPage:
        """Return the content of the page.

        A form continues from `carried`, its encoded state. If `carried` is None, the form continues
        from the saved draft.

        Raises:
            QuestionError: A newer version of midturn asked this question, in an unknown format.
            NotOpen: The question was closed.
            AlreadyAnswered: Another answer came first.
        """
        if self._question.kind != "tool":
            return await self._decision_page(typed)
        if self._question.form is None:
            return await self._question_page(typed)
        if carried is not None:
            return self._form_page(await self._form(read_steps(carried)), typed)
        return self._form_page(await self._form(await self._draft.read()), typed, is_draft=True)

    async def act(self, sent: Fields) -> Receipt | ShownPage:
        """Process a submission. Return a receipt, or the next page of a form.

        Raises:
            PageAgain: The input is invalid.
            NotAllowed: The visitor may not answer this question.
            AlreadyAnswered: Another answer came first.
            NotOpen: The question was closed.
        """
        await self._site.board.port.admit(self._question, self._visitor.name)
        try:
            if changes_layout(sent.one("act")):
                return await self._changed_layout(sent)
            return await self._change_assignment(sent.one("act"), sent) or await self._act(sent)
        except QuestionError as error:  # a person's name is invalid
            raise PageAgain(await self.shown(sent.text("walk"), sent), error.problems) from None
        except AnswerError as error:
            problems = (
                [Problem("", CHANGED)] if isinstance(error, DigestMismatch) else error.problems
            )
            try:
                shown = await self.shown(sent.text("walk"), sent)
            # the turn continued in the meantime, so only the error can be shown
            except (AlreadyAnswered, NotOpen):
                raise NotOpen(str(error)) from None
            raise PageAgain(shown, tuple(problems)) from None

    async def _changed_layout(self, sent: Fields) -> ShownPage:
        """Return the page after its layout changed: a list item was added or removed, or the user
        switched between editing the answer as JSON and as form fields.
        """
        if sent.one("act") == "as fields" and sent.text("answer").strip():
            _read_json(sent.text("answer"))
        return await self.shown(sent.text("walk"), sent)

    async def _change_assignment(self, act: str | None, sent: Fields) -> Receipt | None:
        """Reassign the question, or withdraw an approval.

        Return None if the submission does neither.
        """
        store, id, user = (  # noqa: A001  as in the API
            self._site.board.port.store,
            self._question.id,
            self._visitor.name,
        )
        match act:
            case "pass":
                names = [name.strip() for name in sent.text("to").split(",") if name.strip()]
                receipt = await store.reassign(id, names, user=user, via="web")
            case "take-back":
                receipt = await store.withdraw_vote(id, user=user, via="web")
            case _:
                return None
        await self._site.board.look_again()
        return receipt

    async def _act(self, sent: Fields) -> Receipt | ShownPage:
        match sent.one("act"):
            case "reply":
                return await self._reply_or_stop(sent, Replied(sent.text("reply").strip() or None))
            case "end":
                return await self._reply_or_stop(sent, EndedTurn())
            case _ if self._question.kind != "tool":
                return await self._decide(sent)
            case _ if self._question.form is not None:
                return await self._walk(sent)
            case _:
                return await self._answer_question(sent)

    # Single questions
    # ----------------------------------------------------------------------------------------------

    async def _answer_question(self, sent: Fields) -> Receipt:
        asked = self._question.question.asked("answer")
        if isinstance(asked.answer_type, SecretType) and sent.one("act") != "skip":
            return await self._pass_secrets({"": Answered(self._secret(sent))})
        return await self._answer(
            value=_checked(asked, sent),
            reason=_reason(sent),
            remember=_remember(sent),
            scope=_scope(sent),
        )

    async def _question_page(self, typed: Fields | None) -> FormPage:
        prompt = await self._prompt()
        asked = prompt.question
        start = asked.default if prompt.prefill is UNSET else prompt.prefill
        control = control_of(asked, start, typed)
        covers, holds_on = _covers(prompt), "conversation" in prompt.scopes
        return FormPage(
            asked=asked,
            control=control,
            covers=covers,
            holds_on=holds_on,
            secret_elsewhere=self._elsewhere(asked),
        )

    # Forms
    # ----------------------------------------------------------------------------------------------

    async def _form(self, steps: Sequence[Json]) -> FormWalk:
        return FormWalk(self._question, await self._turn(), self._site.vault, steps)

    async def _reply_or_stop(self, sent: Fields, reply: Replied | EndedTurn) -> Receipt:
        """Reply without an answer, or stop the turn.

        In a form, the answers that were already given are recorded first, as on the terminal.
        """
        in_form = self._question.kind == "tool" and self._question.form is not None
        given = (await self._form(read_steps(sent.text("walk")))).given if in_form else []
        if not given:
            return (
                await self._answer(cancel=True)
                if isinstance(reply, EndedTurn)
                else await self._answer(reply=reply.text or "")
            )
        who = AnsweredBy("user", via="web", user=self._visitor.name)
        store = self._site.board.port.store
        if isinstance(reply, EndedTurn):  # checked before any answer is recorded
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
            case act, Prompt(question=question) if (
                isinstance(question.answer_type, SecretType) and act != "skip"
            ):
                walk.answer_secret(self._secret(sent))
            case _, Prompt(question=question):
                walk.answer(_checked(question, sent))
        if walk.prompt is None:
            return await self._finish(walk)
        await self._draft.keep(walk.steps)
        return self._form_page(walk, None)

    def _form_page(
        self, walk: FormWalk, typed: Fields | None, *, is_draft: bool = False
    ) -> ShownPage:
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
                raise NotOpen("The form has no more questions.")

    # Approvals
    # ----------------------------------------------------------------------------------------------

    async def _decide(self, sent: Fields) -> Receipt:
        match sent.one("act"):
            case "approve":
                remember, digest = (
                    _chosen_offer(self._question, sent) or _remember(sent),
                    sent.one("about") or "",
                )
                return await self._answer(
                    approve=True,
                    reason=_reason(sent),
                    remember=remember,
                    digest=digest,
                    scope=_scope(sent),
                )
            case "refuse":
                return await self._answer(
                    approve=False, reason=_reason(sent), remember=_remember(sent)
                )
            case "back" if self._question.kind == "review":
                return await self._answer(back=True)
            case "edit" if self._question.kind == "run":
                return await self._answer(
                    arguments=_edited(sent.text("edited")), digest=sent.one("about") or ""
                )
            case "edit" if self._question.kind == "deliver":
                return await self._answer(
                    content=sent.text("edited"), digest=sent.one("about") or ""
                )
            case _:
                raise AnswerError([Problem("", "Select what to do.")])

    async def _decision_page(self, typed: Fields | None) -> DecisionPage:
        prompt = await self._prompt()
        edited = typed.text("edited") if typed is not None and "edited" in typed else None
        match prompt.subject:
            case ResultSubject(call, content, is_error, images):
                editable = content if edited is None else edited
                page = DecisionPage(
                    kind="deliver",
                    arguments=call.arguments,
                    content=content,
                    is_error=is_error,
                    editable=editable,
                )
                return replace(
                    page, pictures=[image.media_type for image in images], about=prompt.digest
                )
            case FormSubject() as subject:
                return DecisionPage(
                    kind="review", answers=rows_of_review(subject, {}), about=prompt.digest
                )
            case _:
                editable = pretty(prompt.arguments) if edited is None else edited
                page = DecisionPage(
                    kind="run",
                    arguments=prompt.arguments,
                    covers=_covers(prompt),
                    always=prompt.always,
                    editable=editable,
                )
                return replace(page, about=self._question.digest, **self._permission_values(prompt))

    def _permission_values(self, prompt: Prompt) -> dict[str, Any]:
        """Return the field values for a permission for later calls, or an empty dict if no such
        permission can be granted.
        """
        writes = self._site.board.port.store.writes_rules
        scopes: list[Scope] = [each for each in prompt.scopes if writes or each == "conversation"]
        rule = exact_rule(prompt.arguments)
        if not scopes or rule is None:
            return {}
        (read,) = read_run_rules([rule])
        tool = one_line(prompt.tool)
        choices = [ScopeChoice(each, self._scope_text(each)) for each in scopes]
        return {
            "scopes": choices,
            "allows": describe_rule(read, tool),
            "beyond": not_covered(read, tool, prompt.arguments),
        }

    def _scope_text(self, scope: Scope) -> str:
        asker = self._question.asker
        directory = asker.cwd if asker and asker.cwd else str(self._site.root or "")
        return (
            f"in the project {directory}" if scope == "project" and directory else IN_SCOPE[scope]
        )

    # ----------------------------------------------------------------------------------------------

    async def _prompt(self) -> Prompt:
        """Return the prompt that the terminal would display.

        Raises:
            NotOpen: The question was closed.
            AlreadyAnswered: Another answer came first.
        """
        turn, asked = await self._turn(), self._question.request.event_id
        prompt = Visit(turn, asked, event_ids(), self._question.conversation).prompt()
        if prompt is None:
            raise went_on(turn, Address(self._question.conversation, asked))
        return prompt

    async def _finish(self, walk: FormWalk) -> Receipt:
        """Submit a complete form.

        If the form contains a secret, the answers are passed directly to the turn. Otherwise, they
        are submitted to the store.
        """
        given = walk.answers()
        if not any(isinstance(value, SecretValue) for value in given.values()):
            return await self._answer(value=given)
        return await self._pass_secrets({name: Answered(value) for name, value in given.items()})

    async def _pass_secrets(self, answers: Mapping[str, Answered]) -> Receipt:
        if self._site.resumer is None:
            raise AnswerError([Problem("", self._secret_elsewhere)])
        await self._site.resumer.give(self._question, answers, self._visitor.name)
        await self._after_answer()
        return Receipt(self._question.conversation, self._question.id, held=True)

    def _secret(self, sent: Fields) -> SecretValue:
        """Return the typed secret. It is never sent back to the browser."""
        if self._secret_elsewhere:
            raise AnswerError([Problem("", self._secret_elsewhere)])
        typed = sent.one("secret") or ""
        if not typed:
            raise AnswerError([Problem("", "The field is empty.")])
        return SecretValue(typed)

    def _elsewhere(self, asked: Question[Any]) -> str:
        return self._secret_elsewhere if isinstance(asked.answer_type, SecretType) else ""

    async def _turn(self) -> Sequence[Event]:
        return await self._site.board.port.last_turn(self._question.conversation)

    async def _answer(self, **how: Any) -> Receipt:
        return await self._recorded(
            await self._site.board.port.answer(
                self._question.id, **how, user=self._visitor.name, via="web"
            )
        )

    async def _recorded(self, receipt: Receipt) -> Receipt:
        await self._after_answer()
        if self._site.resumer:
            self._site.resumer.nudge()
        return receipt

    async def _after_answer(self) -> None:
        if self._question.form is not None:
            with suppress(StoreError):  # the answer is recorded; a remaining draft expires
                await self._draft.drop()
        await self._site.board.look_again()


def _checked(question: Question[Any], sent: Fields) -> Json:
    value = sent_answer(question, sent)
    question.check(value)
    return value


def _edited(text: str) -> Json:
    return _read_json(text, "The arguments are not valid JSON")


def _read_json(text: str, said: str = "This is not valid JSON") -> Json:
    try:
        return read_json(text)
    except NotJson as error:
        raise AnswerError([Problem("", f"{said}: {error}.")]) from None


def _covers(prompt: Prompt) -> str:
    return scope(prompt) if prompt.may_remember and not prompt.always else ""


def _chosen_offer(question: OpenQuestion, sent: Fields) -> str:
    """Return the permission that the user selected from the asking agent's offers (`asker.always`).
    Return an empty string if none was selected.
    """
    offered = (
        {str(number): kept for number, kept in enumerate(question.asker.always, 1)}
        if question.asker
        else {}
    )
    return offered.get(sent.one("remember") or "", "")


def _scope(sent: Fields) -> Scope | None:
    return next((scope for scope in SCOPES if sent.one("scope") == scope), None)


def _remember(sent: Fields) -> bool:
    return sent.one("remember") == "yes"


def _reason(sent: Fields) -> str | None:
    return sent.text("reason").strip() or None
