"""Renders a question as a card and interprets replies to the card. The code is the same for every
channel.

A card has a button to approve only if it shows the whole call, result or diff. If the content does
not fit into a message, it is attached as a file. If the platform does not support files, the card
has no such button and refers to the web page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from midturn.channels.port import Card, Fits
from midturn.errors import AnswerError, Problem
from midturn.events.prompt import Prompt
from midturn.question.answer_type import BooleanType, MultiSelectType, SelectType, TextType
from midturn.question.decision_words import ClearDecision, Unclear, read_decision, why_unclear
from midturn.question.json_value import Json
from midturn.terminal.prompts.body import context_lines, preview_rows, subject_lines, verdict_lines
from midturn.terminal.prompts.keys import one_line, question_line

BACK: Final = "back"
SKIP: Final = "skip"
YES: Final = "yes"
NO: Final = "no"
REPLY: Final = "reply"
CONFIRM: Final = "confirm"
WRITE_AGAIN: Final = "again"
OPTION: Final = "option:"
CLARIFY: Final = "ask back"
"""Act of an unclear reply, which starts with yes or no and contains more text. The channel asks its
author what the reply means.
"""
NOTE_YES: Final = "note:yes"
NOTE_NO: Final = "note:no"
NOTE_REPLY: Final = "note:reply"
NOTE_WRITE_AGAIN: Final = "note:again"
NOTE_ACTS: Final = frozenset({NOTE_YES, NOTE_NO, NOTE_REPLY, NOTE_WRITE_AGAIN})
MAX_QUOTED_CHARS: Final = 200  # maximum length of the quote from an unclear reply
# characters of a message that are reserved for parts other than `lines`
RESERVED_CHARS: Final = 700
_LABELS: Final[Mapping[str, tuple[str, str]]] = {
    "run": ("Allow", "Deny"),
    "deliver": ("Deliver", "Withhold"),
    "review": ("Send", ""),
}
ELSEWHERE: Final = (
    "This is too long to show here. Review and answer it on the web page or at a terminal."
)
PREVIEWS_ELSEWHERE: Final = (
    "The previews of the options are too long to show here. See them on the web page or at a"
    " terminal."
)
# width in columns for text that is not wrapped, because platforms wrap long rows themselves
NO_WRAP: Final = 10_000
MAX_REPLY_CHARS: Final = 20_000
"""Maximum length of a reply, in characters. Longer replies are rejected."""


class Draft(Struct, frozen=True, kw_only=True):
    """Content of a card without its recipient and tokens.

    Args:
        acts: Label of each button. The key is the act of the button, such as `YES` or `BACK`.
        is_whole: Whether the card shows the whole call, diff or result that is to be approved. If
            it does not, the card has no button to approve.
    """

    heading: str
    text: str
    lines: tuple[str, ...] = ()
    file: tuple[str, bytes] | None = None
    acts: Mapping[str, str] = {}
    hint: str = ""
    is_whole: bool = True


class CardReply(Struct, frozen=True):
    """Meaning of a reply: an `act` such as `BACK`, or an answer (a `value`, with a `reason` if one
    was given).
    """

    act: str = ""
    value: Json | UnsetType = UNSET
    reason: str | None = None


def build_draft(prompt: Prompt, fits: Fits, where: str = "", whose: str = "") -> Draft:
    """Return the content of a card.

    Args:
        prompt: The question that is open now.
        fits: The platform's limits.
        where: The workspace or program that asks.
        whose: The people who may answer, and the number of people who have approved so far.
    """
    place = f" ({prompt.index} of {prompt.total})" if prompt.total > 1 else ""
    asker = (
        f"{one_line(prompt.asked_by)} asks" if prompt.kind == "tool" else one_line(prompt.asked_by)
    )
    heading = " · ".join(filter(None, (f"{asker}{place}", one_line(where), one_line(whose))))
    lines = [*verdict_lines(prompt), *context_lines(prompt), *subject_lines(prompt)]
    previews = preview_rows(prompt, NO_WRAP, "    ")
    if previews:
        has_room = (
            _char_count((*lines, *previews)) + len(question_line(prompt))
            <= fits.text - RESERVED_CHARS
        )
        lines += previews if has_room else [PREVIEWS_ELSEWHERE]
    size = _char_count(lines)
    acts = _acts(prompt, fits)
    hint = _hint(prompt, fits, acts)
    text = question_line(prompt)
    if len(text) > fits.text - RESERVED_CHARS:
        return Draft(
            heading=heading,
            text=f"{text[: fits.text - RESERVED_CHARS]} …",
            hint=ELSEWHERE,
            is_whole=False,
        )
    if len(text) + size <= fits.text - RESERVED_CHARS:
        return Draft(heading=heading, text=text, lines=tuple(lines), acts=acts, hint=hint)
    if fits.files:
        name = "call.txt" if prompt.kind == "run" else "context.txt"
        return Draft(
            heading=heading, text=text, file=(name, "\n".join(lines).encode()), acts=acts, hint=hint
        )
    offered = {act: label for act, label in acts.items() if act in (NO, BACK)}
    return Draft(heading=heading, text=text, acts=offered, hint=ELSEWHERE, is_whole=False)


def _char_count(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def interpret_words(prompt: Prompt, words: str, more: str = "") -> CardReply:
    """Return the meaning of typed words as a reply to a prompt.

    Args:
        prompt: The question that is open now.
        words: The words, or their first line.
        more: The other lines. They are not part of the answer. If there are any, a first line of
            "yes" or "no" does not count as an answer.

    Raises:
        AnswerError: The words are not an answer. The message tells the sender how to answer.
    """
    if len(words) > MAX_REPLY_CHARS:
        limit = f"Your reply has {len(words):,} characters. The limit is {MAX_REPLY_CHARS:,}."
        raise AnswerError([Problem("", f"{limit} Answer on the web page or at a terminal.")])
    typed = words.strip()
    if not typed:
        raise AnswerError(
            [
                Problem(
                    "",
                    "Your reply contains no text. Write your answer above any quoted text. Images"
                    " and files are ignored.",
                )
            ]
        )
    is_text = isinstance(prompt.question.answer_type, TextType)
    command = typed.casefold().removeprefix("/") if typed.startswith("/") or not is_text else ""
    if command == BACK and prompt.can_go_back:
        return CardReply(BACK)
    if command == SKIP and prompt.question.optional:
        return CardReply(value=None)
    if not _is_yes_or_no(prompt):
        return CardReply(value=_as_json(prompt.question.parse(typed)))
    match read_decision(f"{typed}\n{more}"):
        case ClearDecision(answer, reason):
            return CardReply(YES if answer else NO, reason=reason)
        case Unclear() as unclear if prompt.kind == "review":
            raise AnswerError([Problem("", why_unclear(unclear))])
        case Unclear(words=words):
            return CardReply(CLARIFY, value=words)
        case None:
            raise AnswerError(
                [
                    Problem(
                        "", 'That is neither yes nor no. Reply "yes" or "no", or "no, because …".'
                    )
                ]
            )


def ask_about_note(draft: Draft, prompt: Prompt, words: str, author: str) -> Draft:
    """Return a card that quotes an unclear reply and asks for its meaning: yes, no or neither.

    The card still shows the subject. In a room it also has the buttons for the other members.

    Args:
        draft: The card of the question itself.
        prompt: The question that is open now.
        words: The unclear reply (the "note").
        author: Name of the author of the reply in a room. Empty if the card has one recipient.
    """
    yes, no = _LABELS.get(prompt.kind, ("Yes", "No"))
    approve = {"run": "Approve", "deliver": "Approve"}.get(prompt.kind, "Answer yes")
    can_reply = prompt.kind == "tool" and prompt.can_reply
    third, what = (
        ("Reply", '"reply" to send these words instead of an answer')
        if can_reply
        else ("Write again", '"again" to write a new reply')
    )
    acts = {
        NOTE_YES: f"{yes} with this note",
        NOTE_NO: f"{no} with this note",
        (NOTE_REPLY if can_reply else NOTE_WRITE_AGAIN): third,
    }
    wrote = f"{one_line(author)} wrote" if author else "You wrote"
    asks = (
        f"{wrote}: “{_truncated(one_line(words), MAX_QUOTED_CHARS)}”. Nothing is decided yet."
        f" {approve} with this note?"
    )
    return replace(
        draft,
        acts={**(draft.acts if author else {}), **acts},
        hint=f'{asks} Reply "yes" or "no", or {what}.',
    )


def note_act(note: str, words: str, more: str = "") -> str:
    """Return the act that `words` select on a card that asks about `note`.

    Return an empty string if the words are a new reply. If `more` was already the end of the note,
    it is treated as a signature.
    """
    match read_decision(words if note.endswith(more) else f"{words}\n{more}"):
        case ClearDecision(answer, None):
            return NOTE_YES if answer else NOTE_NO
        case _:
            return {"reply": NOTE_REPLY, "again": NOTE_WRITE_AGAIN}.get(
                words.strip().casefold().removeprefix("/"), ""
            )


def chosen_value(prompt: Prompt, act: str) -> Json:
    """Return the value of the option that belongs to a button.

    Raises:
        AnswerError: The question no longer has this option.
    """
    kind, number = prompt.question.answer_type, act.removeprefix(OPTION)
    if (
        not isinstance(kind, SelectType)
        or not number.isdecimal()
        or int(number) >= len(kind.options)
    ):
        raise AnswerError([Problem("", "This option is no longer available.")])
    return kind.options[int(number)].value


def _as_json(value: object) -> Json:
    return value  # type: ignore[return-value]  # only a secret is not JSON, and channels never ask for secrets


def _is_yes_or_no(prompt: Prompt) -> bool:
    return prompt.kind != "tool" or isinstance(prompt.question.answer_type, BooleanType)


def _acts(prompt: Prompt, fits: Fits) -> dict[str, str]:
    acts: dict[str, str] = {}
    kind = prompt.question.answer_type
    if _is_yes_or_no(prompt):
        yes, no = _LABELS.get(prompt.kind, ("Yes", "No"))
        acts |= {YES: yes, **({NO: no} if no else {})}
    elif isinstance(kind, SelectType):
        options = {
            f"{OPTION}{number}": _truncated(one_line(option.label), fits.label)
            for number, option in enumerate(kind.options)
        }
        acts |= options if len(options) <= fits.buttons else {}
    if prompt.question.optional and prompt.kind == "tool":
        acts[SKIP] = "Skip"
    if prompt.can_go_back:
        acts[BACK] = "Back"
    return acts if len(acts) <= fits.buttons else {}


def _hint(prompt: Prompt, fits: Fits, acts: Mapping[str, str]) -> str:
    kind, how = prompt.question.answer_type, f"{fits.how[:1].upper()}{fits.how[1:]}"
    if _is_yes_or_no(prompt):
        return (
            f'Or {fits.how}: "no, because …".'
            if acts
            else 'Reply "yes" or "no", or "no, because …".'
        )
    match kind:
        case SelectType():
            has_buttons = any(act.startswith(OPTION) for act in acts)
            return "" if has_buttons else f"Reply with a number or a name.\n{_option_list(kind)}"
        case MultiSelectType():
            return f"Reply with numbers or names, separated by commas.\n{_option_list(kind)}"
        case TextType():
            return f"{how}: your answer."
        case _:
            return f"{how}: your answer, as JSON."


def _option_list(kind: SelectType | MultiSelectType) -> str:
    return "\n".join(
        f"{number}. {one_line(option.label)}" for number, option in enumerate(kind.options, 1)
    )


def _truncated(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def plain_text(card: Card) -> str:
    """Return a card as plain text without buttons, for mails and unformatted messages."""
    parts = (
        card.notice,
        card.heading,
        card.text,
        "\n".join(card.lines),
        card.hint,
        "" if card.is_over else card.left,
    )
    attached = (
        f"The attached file {card.file[0]} has the full content." if card.file is not None else ""
    )
    return "\n\n".join(part for part in (*parts[:4], attached, *parts[4:]) if part) + "\n"
