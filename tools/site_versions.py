"""Builds the site for several versions: `python tools/site_versions.py OUT 0.3=HEAD 0.2=REF …`,
the newest first.

Each version is built from its commit into `OUT/NAME`, with the documents and the package of that
commit. `OUT/versions.json` is the list
that the version menu of the site reads, and `OUT/index.html` leads to the newest version. To look
at the result, run
`python -m http.server --directory OUT`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]


def versions_list(names: Sequence[str]) -> str:
    """Return the content of `versions.json`: the first name is the latest version."""
    return json.dumps(
        [
            {"version": name, "title": name, "aliases": [] if number else ["latest"]}
            for number, name in enumerate(names)
        ]
    )


def start_page(name: str) -> str:
    """Return a page that leads to a version."""
    return (
        '<!doctype html><meta charset="utf-8"><title>midturn</title><meta http-equiv="refresh"'
        f' content="0; url={name}/">\n'
    )


def build(name: str, commit: str, out: Path) -> None:
    """Build the site of one commit into `out / name`."""
    with tempfile.TemporaryDirectory() as made:
        tree = Path(made) / "tree"
        subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", str(tree), commit],
            cwd=ROOT,
            check=True,
        )
        try:
            environment = {
                **os.environ,
                "PYTHONPATH": str(tree / "src"),
                "NO_MKDOCS_2_WARNING": "1",
            }
            command = [
                sys.executable,
                "-m",
                "mkdocs",
                "build",
                "--quiet",
                "--site-dir",
                str((out / name).resolve()),
            ]
            subprocess.run(command, cwd=tree, env=environment, check=True)
        finally:
            subprocess.run(
                ["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True
            )


def main(arguments: Sequence[str]) -> int:
    """Build each version; return the exit status."""
    first, *rest = arguments or [""]
    versions = [argument.split("=", 1) for argument in rest if "=" in argument]
    if not versions or len(versions) < len(rest):
        print(
            "Usage: python tools/site_versions.py OUT NAME=COMMIT …, the newest version first",
            file=sys.stderr,
        )
        return 2
    out = Path(first)
    for name, commit in versions:
        build(name, commit, out)
    (out / "versions.json").write_text(
        versions_list([name for name, _ in versions]), encoding="utf-8"
    )
    (out / "index.html").write_text(start_page(versions[0][0]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
