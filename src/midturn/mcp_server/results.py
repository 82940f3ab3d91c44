"""What a client's model reads: in words and as data, each complete, for some clients pass only the one or the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mcp import types
from msgspec import Struct

from midturn.foreign import words
from midturn.foreign.words import Approved, Decided, DecidedElsewhere, FormCompleted, Refused, RepliedTo, TurnStopped
from midturn.routing.messages import user_added
from midturn.tools.ask_user_call import SINGLE_ID, FormRead
from midturn.values.json_value import Json


class ServedResult(Struct, frozen=True):
    """A result: `data` holds everything that `text` says."""

    text: str
    data: dict[str, Json]
    is_error: bool = False

    def result(self) -> types.CallToolResult:
        """Return it as the protocol has it."""
        content: Any = {**self.data, "text": self.text}
        text = types.TextContent(type="text", text=self.text)
        return types.CallToolResult(content=[text], structured_content=content, is_error=self.is_error)

    def wire(self) -> dict[str, Any]:
        """Return it as it stands in a message."""
        return self.result().model_dump(mode="json", by_alias=True, exclude_none=True)


def answered(asked: FormRead, outcome: Decided) -> ServedResult:
    """Say what became of a question."""
    match outcome:
        case FormCompleted(answers=answers, reasons=reasons):
            if asked.answer_type is not None:
                return _single(asked.answer_type, answers[SINGLE_ID], next(iter(reasons.values()), None))
            return _several(dict(answers), [*reasons.values()])
        case RepliedTo(said):
            return ServedResult(words.replied(outcome), {"status": "replied", "reply": said})
        case TurnStopped():
            return ServedResult(words.ENDED, {"status": "ended"})
        case Approved() | Refused() | DecidedElsewhere():
            return withdrawn()


def withdrawn() -> ServedResult:
    """Say that there will be no answer, and that none is known: it is an error, so that no model goes on as if it had one."""
    return ServedResult("The question was withdrawn; nobody has answered it.", {"status": "withdrawn"}, is_error=True)


def waiting(id: str, ticket: int, advice: str) -> ServedResult:
    """Say that the question is still unanswered."""
    text = (
        f"Nobody has answered yet. This is not a no, and not a yes. The question stays open: the user finds it in the inbox. "
        f'{advice} (check_answer {{"id": "{id}", "ticket": {ticket}}})'
    )
    return ServedResult(text, {"status": "waiting", "id": id, "ticket": ticket})


def there(id: str) -> ServedResult:
    """Say that there is an answer, or something else that was said, and how it is read."""
    text = f'The user has responded: call check_answer {{"id": "{id}", "ticket": 0}} to read what was said.'
    return ServedResult(text, {"status": "there", "id": id, "ticket": 0})


def cancelled(id: str) -> str:
    """Say what a cancelled call means, whatever has become of its question since."""
    return f'This call was cancelled. That is not a no: check_answer {{"id": "{id}", "ticket": 0}} says what became of the question.'


def wrong(text: str) -> types.CallToolResult:
    """Return an error that the model can correct itself from."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content={"status": "error", "text": text}, is_error=True
    )


def _single(answer_type: str, answer: Json, reason: str | None) -> ServedResult:
    said = f"The user answered: {words.answer_in_words(answer)}" + (f" ({reason})" if reason else "")
    data: dict[str, Json] = {"answer_type": answer_type, "answer": answer, **({"reason": reason} if reason else {})}
    return ServedResult(f"{said}\n{_json(data)}", data)


def _several(answers: dict[str, Json], reasons: Sequence[str]) -> ServedResult:
    listed = "\n".join(f"- {key}: {words.answer_in_words(value)}" for key, value in answers.items())
    text = "\n".join(["The user answered:", listed, _json(answers), *map(user_added, reasons)])
    return ServedResult(text, {"answers": answers, **({"reasons": [*reasons]} if reasons else {})})


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
