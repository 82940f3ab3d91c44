"""A local command of the demo: it shows its diff, asks, and edits the file (protocol `outcome`: JSON on stdin, JSON on stdout)."""

import difflib
import json
import pathlib
import sys


def outcome(**fields: object) -> None:
    """Say how this run ends."""
    json.dump(fields, sys.stdout)


def main() -> None:
    """Ask for the first time, act when the answer is there."""
    document = json.load(sys.stdin)
    arguments, answers = document["tool"]["arguments"], document["tool"]["answers"]
    path = pathlib.Path(document["context"]["root"]) / arguments["path"]
    before = path.read_text()
    after = before.replace(arguments["old"], arguments["new"])
    if "apply" not in answers:
        names = (f"a/{arguments['path']}", f"b/{arguments['path']}")
        diff = "".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True), *names))
        question = {
            "id": "apply",
            "text": f"Apply this change to {arguments['path']}?",
            "context": f"```diff\n{diff}```",
            "answer_type": {"type": "boolean"},
            "default": True,
        }
        outcome(type="needs_input", question=question)
    elif answers["apply"]:
        path.write_text(after)
        outcome(type="success", content=f"{arguments['path']} was changed.")
    else:
        outcome(type="error", message=f"{arguments['path']} was not changed.")


main()
