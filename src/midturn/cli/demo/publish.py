"""A local command for the demo. Only a human may approve it."""

import json
import pathlib
import sys


def main() -> None:
    """Ask the question in the first run. Publish in the second run, which receives the answer."""
    document = json.load(sys.stdin)
    path, answers = document["tool"]["arguments"]["path"], document["tool"]["answers"]
    if "go_ahead" not in answers:
        question = {
            "id": "go_ahead",
            "text": f"Publish {path} now?",
            "answer_type": {"type": "boolean"},
            "exclusive": True,
        }
        json.dump({"type": "needs_input", "question": question}, sys.stdout)
    elif answers["go_ahead"]:
        source = pathlib.Path(document["context"]["root"]) / path
        source.with_suffix(".published").write_text(source.read_text())
        json.dump({"type": "success", "content": f"{path} is published."}, sys.stdout)
    else:
        json.dump({"type": "error", "message": f"{path} was not published."}, sys.stdout)


main()
