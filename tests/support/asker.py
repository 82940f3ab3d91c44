"""A local command for tests (protocol `outcome`): asks what is in `ask`, then says the answers or `say`, or fails with `fail`.

`json` holds more arguments as text: with escapes for the control characters that no call may hold. Once the file `changed.file` is there,
it asks `changed.ask`.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    """Do one run of the call."""
    document = json.load(sys.stdin)
    arguments, answers = document["tool"]["arguments"], document["tool"]["answers"]
    arguments |= json.loads(arguments.get("json", "{}"))
    changed = arguments.get("changed")
    asked: Any = changed["ask"] if changed and Path(changed["file"]).exists() else arguments.get("ask", [])
    questions: list[Any] = [asked] if isinstance(asked, dict) else asked
    outcome: dict[str, Any]
    if note := arguments.get("note"):
        Path(note).write_text("running")
    time.sleep(arguments.get("sleep", 0))
    if any(question["id"] not in answers for question in questions):
        outcome = (
            {"type": "needs_input", "questions": questions} if len(questions) > 1 else {"type": "needs_input", "question": questions[0]}
        )
    elif "fail" in arguments:
        outcome = {"type": "error", "message": arguments["fail"]}
    else:
        outcome = {"type": "success", "content": arguments.get("say", json.dumps(answers))}
    json.dump(outcome, sys.stdout)


main()
