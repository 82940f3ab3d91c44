"""Local command for tests (protocol `outcome`): asks the questions in `ask`, then returns `say`
or the answers, or fails with `fail`.

`json` holds further arguments as JSON text, with escapes for control characters that a call
cannot contain. If the file `changed.file` exists, it asks `changed.ask` instead. It is started a
thousand times, so it imports almost nothing: `json` and `pathlib` would take longer than the
rest.
"""

from __future__ import annotations

import sys
import time
from _json import (
    encode_basestring_ascii,
    make_encoder,
    make_scanner,
)  # the implementation of `json`
from posix import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Reading:
    """The settings that `json.loads` reads with."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float

    def __init__(self) -> None:
        self.memo: dict[str, str] = {}


def main() -> None:
    document = _read(sys.stdin.buffer.read().decode())
    arguments, answers = document["tool"]["arguments"], document["tool"]["answers"]
    arguments |= _read(arguments.get("json", "{}"))
    changed = arguments.get("changed")
    asked: Any = (
        changed["ask"] if changed and _is_there(changed["file"]) else arguments.get("ask", [])
    )
    questions: list[Any] = [asked] if isinstance(asked, dict) else asked
    outcome: dict[str, Any]
    if note := arguments.get("note"):
        with open(note, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write("running")
    time.sleep(arguments.get("sleep", 0))
    if any(question["id"] not in answers for question in questions):
        outcome = (
            {"type": "needs_input", "questions": questions}
            if len(questions) > 1
            else {"type": "needs_input", "question": questions[0]}
        )
    elif "fail" in arguments:
        outcome = {"type": "error", "message": arguments["fail"]}
    else:
        outcome = {"type": "success", "content": arguments.get("say", _written(answers))}
    sys.stdout.write(_written(outcome))


def _read(text: str) -> Any:
    scanner: Any = make_scanner
    return scanner(_Reading())(text.strip(), 0)[0]


def _written(value: Any) -> str:
    encoder: Any = make_encoder  # the stubs accept too little
    return "".join(
        encoder(None, None, encode_basestring_ascii, None, ": ", ", ", False, False, True)(value, 0)
    )


def _is_there(file: str) -> bool:
    try:
        stat(file)  # works without permission to open the file
    except FileNotFoundError:
        return False
    return True


main()
