"""Type-checks every example, in `examples/` and in the documents, with mypy and pyright in strict
mode.

A document becomes a module with the same line numbers, so that errors are reported at their place
in the document.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from support.documents import DOCUMENTS, ROOT, Block, blocks, name

OLDEST, NEWEST = "3.11", "3.14"
_MYPY_MAY: Final = ["--disable-error-code=no-redef", "--disable-error-code=import-untyped"]
"""A document may define two tools of one name, and third-party libraries may have no types."""
_PYRIGHT_MAY: Final = {
    "reportRedeclaration": False,
    "reportMissingTypeStubs": False,
    "reportUnknownMemberType": False,
}
_EXAMPLES: Final = sorted((ROOT / "examples").rglob("*.py"))


def written(directory: Path) -> dict[str, str]:
    """Write each document's Python as modules; return the document of each module."""
    documents: dict[str, str] = {}
    for document in DOCUMENTS:
        modules: dict[tuple[int, str], list[Block]] = defaultdict(list)
        for block in blocks(document):
            if block.language == "python":
                modules[block.example, Path(block.file or "example.py").stem].append(block)
        for (example, module), parts in modules.items():
            prefix = re.sub(r"\W", "_", name(document).removesuffix(".md")).lower() + (
                f"_{example}" if example else ""
            )
            text = _in_place(parts)
            # a module of the same example
            for other in (other for number, other in modules if number == example):
                text = re.sub(
                    rf"^(from|import) {other}\b", rf"\1 {prefix}__{other}", text, flags=re.MULTILINE
                )
            (directory / f"{prefix}__{module}.py").write_text(text, encoding="utf-8")
            documents[f"{prefix}__{module}.py"] = name(document)
    return documents


def _in_place(parts: list[Block]) -> str:
    """Return a module with each block at its line in the document."""
    lines: list[str] = []
    for part in parts:
        lines += [""] * (part.line - 1 - len(lines))
        lines += part.text.splitlines()
    return "\n".join(lines) + "\n"


def mypy(directory: Path, python: str) -> Iterator[str]:
    """Yield the errors of mypy."""
    options = [
        "--strict",
        "--no-error-summary",
        "--hide-error-context",
        f"--python-version={python}",
        *_MYPY_MAY,
    ]
    files = [*sorted(directory.glob("*.py")), *_EXAMPLES]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *files],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    yield from (run.stdout + run.stderr).splitlines()


def pyright(directory: Path, python: str) -> Iterator[str]:
    """Yield the errors of pyright.

    Examples that are programs are checked together with the project's code, for the oldest
    Python.
    """
    include = (
        [".", os.path.relpath(ROOT / "examples", directory.resolve())]
        if python == NEWEST
        else ["."]
    )
    settings = {
        "typeCheckingMode": "strict",
        "pythonVersion": python,
        "include": include,
        "extraPaths": sorted({str(file.parent) for file in _EXAMPLES}),  # of their own modules
        **_PYRIGHT_MAY,
    }
    (directory / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--outputjson",
        "--pythonpath",
        sys.executable,
        "--project",
        str(directory),
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    for one in json.loads(run.stdout)["generalDiagnostics"]:
        line = one["range"]["start"]["line"] + 1
        yield (
            f"{Path(one['file']).name}:{line}: {one['severity']}: {one['message'].splitlines()[0]}"
            f" ({one.get('rule', '')})"
        )


def main() -> int:
    """Print each error with its place."""
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        documents = written(directory)
        wrong = [
            f"{tool.__name__} {python}: {line}"
            for tool in (mypy, pyright)
            for python in (OLDEST, NEWEST)
            for line in tool(directory, python)
        ]
    for line in wrong:
        print(re.sub(r"(\w+__\w+\.py)", lambda found: documents.get(found[0], found[0]), line))
    print(
        f"{len(documents)} modules of documents and {len(_EXAMPLES)} examples: {len(wrong) or 'no'}"
        " problems."
    )
    return min(len(wrong), 1)


if __name__ == "__main__":
    raise SystemExit(main())
