"""`tools/task bars`: measure quality limits over large generated corpora and print a line for each.
`DURATION` is the duration of each race in seconds.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import sys
import tempfile
import time
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path, PurePosixPath

import pyte

from midturn.events.prompt import Prompt
from midturn.question.answer_type import SelectOption, SelectType
from midturn.question.diff import Change
from midturn.question.question import Question
from midturn.question.schema_check import validate
from midturn.question.text import exact, prose
from midturn.terminal.flow import PlainFlow
from midturn.terminal.prompts.keys import code_line
from midturn.terminal.prompts.rich.screen import POINTER, row_text
from midturn.tools.fs import beneath as beneath_module
from midturn.tools.fs.beneath import Beneath, Unsupported
from midturn.tools.fs.paths import Missing
from midturn.tools.fs.searching import Pattern
from midturn.tools.returned import Rejected
from question.schema.test_validation import SLOW
from question.test_visible import ATTACKS
from support.rich_prompt_driver import RichPromptDriver
from support.swapped_folder import swapping_with_symlink

SECONDS = float(os.environ.get("DURATION", "5"))
DRAWN = int(os.environ.get("PROMPTS", "12000"))
_IGNORABLE = (
    *(0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
    *range(0x180B, 0x1810),
    *range(0xFE00, 0xFE10),
    *range(0xE0100, 0xE01F0),
)
_HEADERS = (
    "| deploy asks:",
    "│ deploy asks:",
    "Assistant asks:",
    "deploy: run ls?",
    "Allow it?",
    "Type y yes, n no",
    "y yes  n no",
    "> yes",
    f"{POINTER}yes",
)
_AROUND = (
    "{}",
    "\n{}\n",
    "\r{}",
    "text\n\n{}",
    "\x1b[2K{}",
    "\x1b[1A{}",
    "{}\x1b[0m",
    "\b{}",
    "\x0b{}",
    "> {}",
    "  {}",
    "```\n{}\n```",
)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    _say(f"2. an emulator: {_drawn()}; of what imitates a prompt in a model's words {_imitated()}")
    _say(f"4. invisible characters: {_invisible()}")
    _say(f"8. schemas and patterns: {asyncio.run(_held_up())}")
    _say(f"14. paths: {_paths()}")


# 2
# --------------------------------------------------------------------------------------------------


def _drawn() -> str:
    drawing, wrong = random.Random(1), 0
    pieces = [
        *ATTACKS.values(),
        *_HEADERS,
        "漢字",
        "e\u0301",
        "\t",
        "\r\n",
        "word ",
        "a" * 90,
        "👍🏽",
        "🇳🇱",
        "\u202e",
    ]
    for number in range(DRAWN):
        text, context, first = (
            "".join(drawing.choices(pieces, k=drawing.randint(1, 6))) for _ in range(3)
        )
        options = SelectType((SelectOption(first or "a"), SelectOption(f"{number} other")))
        question = Question.unchecked(id="q", text=text, context=context, answer_type=options)
        columns = drawing.choice((30, 40, 80, 120))
        wrong += _leaves_its_rows(Prompt(question=question, asked_by="deploy"), columns)
    return f"{wrong} of {DRAWN:,} prompts leave their rows"


def _leaves_its_rows(prompt: Prompt, columns: int) -> bool:
    """Return whether a prompt writes outside its rows, sets the title or has a context row
    without gutter.
    """
    keys = RichPromptDriver(prompt, columns=columns, rows=60)
    rows = [row_text(spans) for spans in (*keys.prompt.static(), *keys.frame().rows)]
    screen = pyte.Screen(columns + 2, 4 * len(rows) + 4)
    screen.title = "mine"
    pyte.Stream(screen).feed("\r\n".join(rows) + "\r\nEND")
    ends = [number for number, row in enumerate(screen.display) if row.startswith("END")]
    guttered = [number for number, row in enumerate(rows) if row.startswith("│")]
    kept = all(screen.display[number].startswith("│") for number in guttered)
    return ends != [len(rows)] or screen.title != "mine" or not kept or not rows[0].startswith("│")


def _imitated() -> str:
    real = {"| deploy asks:", "│ deploy asks:", "| Assistant asks:", "│ Assistant asks:"}
    tried = same = 0
    for header, around in product(_HEADERS, _AROUND):
        flow = PlainFlow(lambda: 80)
        said = flow.feed(around.replace("{}", header)) + flow.finish()
        tried += 1
        same += any(row.rstrip() in real for row in said.split("\n"))
    return f"{tried - same} of {tried} can be told from a prompt's header"


# 4
# --------------------------------------------------------------------------------------------------


def _invisible() -> str:
    corpus = [chr(code) for code in range(0x110000) if _shows_nothing(code)]
    coded = sum("⟨U+" in exact(f"x{one}y") for one in corpus)
    in_prose = sum("⟨U+" in prose(f"x{one}y") for one in corpus)
    in_code = sum(f"x{one}y" != code_line(f"x{one}y") for one in corpus)
    counted = sum(Change("a", "x\n", f"x{one}y\n").hidden() == 1 for one in corpus)
    return (
        f"of {len(corpus)}: {coded} shown exactly, {in_prose} in prose, {in_code} in a diff,"
        f" {counted} counted there"
    )


def _shows_nothing(code: int) -> bool:
    category = unicodedata.category(chr(code))
    if code in {0x20, 0x0A, 0x0D, 0x09} or category == "Cs":
        return False
    return category in {"Cc", "Cf", "Zl", "Zp", "Zs"} or code in _IGNORABLE


# 8
# --------------------------------------------------------------------------------------------------


async def _held_up() -> str:
    slowest = 0.0
    for schema, value in SLOW.values():
        begun = time.perf_counter()
        validate(schema, value)
        slowest = max(slowest, time.perf_counter() - begun)
    beats: list[float] = []
    beating = asyncio.ensure_future(_beat(beats))
    await asyncio.sleep(0.1)
    quiet = max(beats)
    beats.clear()
    pattern = Pattern(r"\w{1,200}\w{1,200}x")
    await asyncio.to_thread(lambda: [pattern.is_in("a" * 400) for _ in range(10)])
    await asyncio.sleep(0.05)
    beating.cancel()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (
        f"{len(SLOW)} schemas, the slowest in {slowest * 1000:.0f} ms (bar 250), {memory:.0f} MiB;"
        f" the loop stood still for {max(beats) * 1000:.0f} ms in a search (bar 50;"
        f" {quiet * 1000:.0f} without)"
    )


async def _beat(beats: list[float]) -> None:
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(0.001)
        beats.append(time.perf_counter() - begun - 0.001)


# 14
# --------------------------------------------------------------------------------------------------


def _paths() -> str:
    cells = escapes = 0
    races: list[str] = []
    for with_kernel in (True, False):
        before = beneath_module.open_beneath
        if not with_kernel:
            beneath_module.open_beneath = _absent
        try:
            for reached in _static():
                cells, escapes = cells + 1, escapes + reached
            tried, out = _raced()
            races.append(f"{out} of {tried:,} with {'openat2' if with_kernel else 'the walk'}")
        finally:
            beneath_module.open_beneath = before
    return f"{escapes} of {cells} lead out; in a race {', '.join(races)}"


def _absent(*_: object) -> int:
    raise Unsupported


def _static() -> Iterator[bool]:
    with tempfile.TemporaryDirectory() as folder:
        outside, root = Path(folder, "outside"), Path(folder, "root")
        outside.mkdir()
        (outside / "f").write_text("outside")
        root.mkdir()
        (root / "in").mkdir()
        (root / "in" / "f").write_text("inside")
        links = {
            "up": "..",
            "out": "../outside",
            "file": "../outside/f",
            "abs": str(outside),
            "loop": "loop",
            "two": "up/outside",
            "proc": "/proc/self/root",
        }
        for name, target in links.items():
            (root / name).symlink_to(target)
            (root / "in" / name).symlink_to(
                f"../{target}" if not target.startswith("/") else target
            )
        os.link(outside / "f", root / "hard")
        os.mkfifo(root / "fifo")
        names = [
            *links,
            "hard",
            "fifo",
            "..",
            "../outside",
            "../outside/f",
            "in/../../outside/f",
            str(outside),
            f"{outside}/f",
            "/etc/passwd",
        ]
        names += [f"in/{name}" for name in links] + [
            "proc/etc/passwd",
            "up/outside/f",
            "two/f",
            "out/f",
            "abs/f",
            "in/out/f",
            "./up/outside/f",
            "in/./../up/f",
        ]
        for name in names:
            for way in (_read, _listed, _written):
                yield (
                    way(root, name)
                    or (outside / "f").read_text() != "outside"
                    or len(list(outside.iterdir())) != 1
                )


def _read(root: Path, name: str) -> bool:
    with Beneath(root) as beneath:
        try:
            return beneath.read(PurePosixPath(name)) != b"inside"
        except (Rejected, Missing, OSError):
            return False


def _listed(root: Path, name: str) -> bool:
    with Beneath(root) as beneath:
        try:
            with beneath.folder(PurePosixPath(name)) as descriptor:
                return not _real(descriptor).is_relative_to(root)
        except (Rejected, Missing, OSError):
            return False


def _written(root: Path, name: str) -> bool:
    with Beneath(root) as beneath:
        try:
            with beneath.parent(PurePosixPath(name) / "new") as descriptor:
                return not _real(descriptor).is_relative_to(root)
        except (Rejected, Missing, OSError):
            return False


def _real(descriptor: int) -> Path:
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def _raced() -> tuple[int, int]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        Path(folder, "f").write_text("outside")
        tried = out = 0
        end = time.monotonic() + SECONDS
        with swapping_with_symlink(root, "f"), Beneath(root) as beneath:
            while time.monotonic() < end:
                tried += 1
                with suppress(Rejected, Missing):
                    out += beneath.read(PurePosixPath("a/f")) == b"outside"
        return tried, out


if __name__ == "__main__":
    main()
