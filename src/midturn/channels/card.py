"""What a card says of a question, and what a reply to it means. Pure: the same for every channel.

**What is approved is shown whole, or approving is not offered.** A call, a result or a diff that does not fit into a message goes as a
file, where the platform has files; where it has none, the card offers no yes, and says where to look.
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
AGAIN: Final = "again"
OPTION: Final = "option:"
ASK_BACK: Final = "ask back"
"""Words that begin with a yes or a no and say more: their author is asked what they decide."""
NOTE_YES: Final = "note:yes"
NOTE_NO: Final = "note:no"
NOTE_REPLY: Final = "note:reply"
NOTE_AGAIN: Final = "note:again"
NOTE_ACTS: Final = frozenset({NOTE_YES, NOTE_NO, NOTE_REPLY, NOTE_AGAIN})
_MAX_QUOTED: Final = 200  # characters of a person's own words that are shown back
_HEAD: Final = 700  # characters that a message keeps for everything but its lines
_WORDS: Final[Mapping[str, tuple[str, str]]] = {"run": ("Allow", "Deny"), "deliver": ("Deliver", "Withhold"), "review": ("Send", "")}
ELSEWHERE: Final = "It does not fit here. Look at it on the page or at a terminal, and answer there."
PREVIEWS_ELSEWHERE: Final = "The options have previews, which do not fit here: look at them on the page or at a terminal."
_UNWRAPPED: Final = 10_000  # cells: the platform breaks long rows itself
TOO_LONG: Final = 20_000
"""Characters of a reply; what is longer is not looked at."""


class Draft(Struct, frozen=True, kw_only=True):
    """A card before it has an addressee and tokens. `acts` has the label of each button by what it does.

    `is_whole`: whether everything is shown. What is not can be denied here, and nothing else.
    """

    heading: str
    text: str
    lines: tuple[str, ...] = ()
    file: tuple[str, bytes] | None = None
    acts: Mapping[str, str] = {}
    hint: str = ""
    is_whole: bool = True


class Said(Struct, frozen=True):
    """What a reply means: `act`, or a `value` with a `reason`."""

    act: str = ""
    value: Json | UnsetType = UNSET
    reason: str | None = None


def draft_of(prompt: Prompt, fits: Fits, where: str = "", whose: str = "") -> Draft:
    """Return what a card says about a prompt.

    Args:
        prompt: What is asked now.
        fits: What the platform takes.
        where: The workspace or program in which it is asked.
        whose: For whom it is, and how many have said yes.
    """
    place = f" ({prompt.index} of {prompt.total})" if prompt.total > 1 else ""
    asker = f"{one_line(prompt.asked_by)} asks" if prompt.kind == "tool" else one_line(prompt.asked_by)
    heading = " · ".join(filter(None, (f"{asker}{place}", one_line(where), one_line(whose))))
    lines = [*verdict_lines(prompt), *context_lines(prompt), *subject_lines(prompt)]
    previews = preview_rows(prompt, _UNWRAPPED, "    ")
    if previews:
        lines += previews if _size((*lines, *previews)) + len(question_line(prompt)) <= fits.text - _HEAD else [PREVIEWS_ELSEWHERE]
    size = _size(lines)
    acts = _acts(prompt, fits)
    hint = _hint(prompt, fits, acts)
    text = question_line(prompt)
    if len(text) > fits.text - _HEAD:
        return Draft(heading=heading, text=f"{text[: fits.text - _HEAD]} …", hint=ELSEWHERE, is_whole=False)
    if len(text) + size <= fits.text - _HEAD:
        return Draft(heading=heading, text=text, lines=tuple(lines), acts=acts, hint=hint)
    if fits.files:
        name = "call.txt" if prompt.kind == "run" else "context.txt"
        return Draft(heading=heading, text=text, file=(name, "\n".join(lines).encode()), acts=acts, hint=hint)
    offered = {act: label for act, label in acts.items() if act in (NO, BACK)}
    return Draft(heading=heading, text=text, acts=offered, hint=ELSEWHERE, is_whole=False)


def _size(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def meant(prompt: Prompt, words: str, more: str = "") -> Said:
    """Return what typed words mean as a reply to a prompt.

    Args:
        prompt: What is asked.
        words: The words, or their first line.
        more: Further lines, which are no part of an answer, and without which no yes or no counts.

    Raises:
        AnswerError: They are no answer; it says in a sentence for the person what would be one.
    """
    if len(words) > TOO_LONG:
        raise AnswerError([Problem("", f"That has {len(words):,} characters; {TOO_LONG:,} are read. Answer on the page or at a terminal.")])
    typed = words.strip()
    if not typed:
        raise AnswerError([Problem("", "There is no text in that. Write your answer above what you quote, without a picture or a file.")])
    is_text = isinstance(prompt.question.answer_type, TextType)
    command = typed.casefold().removeprefix("/") if typed.startswith("/") or not is_text else ""
    if command == BACK and prompt.can_go_back:
        return Said(BACK)
    if command == SKIP and prompt.question.optional:
        return Said(value=None)
    if not _is_yes_or_no(prompt):
        return Said(value=_plain(prompt.question.parse(typed)))
    match read_decision(f"{typed}\n{more}"):
        case ClearDecision(answer, reason):
            return Said(YES if answer else NO, reason=reason)
        case Unclear() as unclear if prompt.kind == "review":
            raise AnswerError([Problem("", why_unclear(unclear))])
        case Unclear(words=words):
            return Said(ASK_BACK, value=words)
        case None:
            raise AnswerError([Problem("", 'That is neither yes nor no. Answer "yes" or "no", or "no, because …".')])


def asked_back(draft: Draft, prompt: Prompt, words: str, author: str) -> Draft:
    """Return a card that shows its author what they wrote, and asks whether that is a yes, a no, or neither.

    The subject stays on the card. In a room, the buttons for everybody stay, too.

    Args:
        draft: The card without these words.
        prompt: What is asked.
        words: What was written.
        author: Who wrote it, in a room; empty where the card is theirs alone.
    """
    yes, no = _WORDS.get(prompt.kind, ("Yes", "No"))
    approve = {"run": "Approve", "deliver": "Approve"}.get(prompt.kind, "Answer yes")
    can_reply = prompt.kind == "tool" and prompt.can_reply
    third, what = ("Reply", '"reply" to send these words instead of an answer') if can_reply else ("Write again", '"again" to write anew')
    acts = {NOTE_YES: f"{yes} with this note", NOTE_NO: f"{no} with this note", (NOTE_REPLY if can_reply else NOTE_AGAIN): third}
    wrote = f"{one_line(author)} wrote" if author else "You wrote"
    asks = f"{wrote}: “{_cut(one_line(words), _MAX_QUOTED)}”. Nothing is decided yet. {approve} with this note?"
    return replace(draft, acts={**(draft.acts if author else {}), **acts}, hint=f'{asks} Reply "yes" or "no", or {what}.')


def note_act(note: str, words: str, more: str = "") -> str:
    """Return what words do on a card that asks the author of `note` back; empty if they say something new.

    Further lines that the note had, too, are a signature.
    """
    match read_decision(words if note.endswith(more) else f"{words}\n{more}"):
        case ClearDecision(answer, None):
            return NOTE_YES if answer else NOTE_NO
        case _:
            return {"reply": NOTE_REPLY, "again": NOTE_AGAIN}.get(words.strip().casefold().removeprefix("/"), "")


def chosen(prompt: Prompt, act: str) -> Json:
    """Return the value of the option that a button names.

    Raises:
        AnswerError: There is none.
    """
    kind, number = prompt.question.answer_type, act.removeprefix(OPTION)
    if not isinstance(kind, SelectType) or not number.isdecimal() or int(number) >= len(kind.options):
        raise AnswerError([Problem("", "That is not offered any more.")])
    return kind.options[int(number)].value


def _plain(value: object) -> Json:
    """Return an answer that is JSON; a secret is never asked here."""
    return value  # type: ignore[return-value]


def _is_yes_or_no(prompt: Prompt) -> bool:
    return prompt.kind != "tool" or isinstance(prompt.question.answer_type, BooleanType)


def _acts(prompt: Prompt, fits: Fits) -> dict[str, str]:
    acts: dict[str, str] = {}
    kind = prompt.question.answer_type
    if _is_yes_or_no(prompt):
        yes, no = _WORDS.get(prompt.kind, ("Yes", "No"))
        acts |= {YES: yes, **({NO: no} if no else {})}
    elif isinstance(kind, SelectType):
        options = {f"{OPTION}{number}": _cut(one_line(option.label), fits.label) for number, option in enumerate(kind.options)}
        acts |= options if len(options) <= fits.buttons else {}
    if prompt.question.optional and prompt.kind == "tool":
        acts[SKIP] = "Skip"
    if prompt.can_go_back:
        acts[BACK] = "Back"
    return acts if len(acts) <= fits.buttons else {}


def _hint(prompt: Prompt, fits: Fits, acts: Mapping[str, str]) -> str:
    kind, how = prompt.question.answer_type, f"{fits.how[:1].upper()}{fits.how[1:]}"
    if _is_yes_or_no(prompt):
        return f'Or {fits.how}: "no, because …".' if acts else 'Reply "yes" or "no", or "no, because …".'
    match kind:
        case SelectType():
            has_buttons = any(act.startswith(OPTION) for act in acts)
            return "" if has_buttons else f"Reply with a number or a name.\n{_listed(kind)}"
        case MultiSelectType():
            return f"Reply with numbers or names, with commas between them.\n{_listed(kind)}"
        case TextType():
            return f"{how}: your answer."
        case _:
            return f"{how}: your answer, as JSON."


def _listed(kind: SelectType | MultiSelectType) -> str:
    return "\n".join(f"{number}. {one_line(option.label)}" for number, option in enumerate(kind.options, 1))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def plain_text(card: Card) -> str:
    """Return a card as text without buttons: a mail, or a message without formats."""
    parts = (card.notice, card.heading, card.text, "\n".join(card.lines), card.hint, "" if card.is_over else card.left)
    attached = f"In {card.file[0]}, attached to this mail, it stands whole." if card.file is not None else ""
    return "\n\n".join(part for part in (*parts[:4], attached, *parts[4:]) if part) + "\n"
