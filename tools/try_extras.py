"""Installs the built wheel without extras and with each extra, each in a fresh environment, and
tries what the extra is for.

The source archive is also installed, without extras: the wheel built from it must equal the wheel
built here. Run `python tools/try_extras.py [sdist] [base] [extra …]`. It needs only the package
index that `uv` is configured with. The base install must stay small: at most `MOST_PACKAGES`
packages and `MOST_MEGABYTES`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
UV = shutil.which("uv", path=f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}") or "uv"
MOST_PACKAGES = 16
MOST_MEGABYTES = 45
WITH_PAGE = frozenset({"web", "webpush", "all"})
"""The extras that install the packages of the web page; no other extra may."""

BASE = """
import subprocess, sys
import midturn as mt
@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    "Deploy."
    return str(await ctx.ask(mt.Question.boolean("sure", "Sure?")))
agent = mt.Agent(mt.ScriptedModel([{"calls": [{"name": "deploy"}]}, {"text": "Done."}]), tools=[deploy])
assert agent.run_sync("Go.", prompter=mt.ScriptedPrompter({"deploy.sure": True})).text == "Done."
for words in (["--version"], ["doctor", "--help"], ["demo"]):
    subprocess.run([sys.executable, "-m", "midturn", *words], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
for name in ("starlette", "mcp", "psycopg", "pydantic_ai", "apprise", "opentelemetry", "dbos", "langgraph", "agents"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    raise SystemExit(f"{name} is installed without its extra")
"""
PROVIDER = """
import os
os.environ["{key}"] = "no key"
import midturn as mt
mt.Agent("{model}")
import {module}
"""
TRIES: Mapping[str, str] = {
    "anthropic": PROVIDER.format(
        key="ANTHROPIC_API_KEY",
        model="anthropic/claude-sonnet-5-5",
        module="pydantic_ai.models.anthropic",
    ),
    "openai": PROVIDER.format(
        key="OPENAI_API_KEY", model="openai/gpt-6-astra", module="pydantic_ai.models.openai"
    ),
    "google": PROVIDER.format(
        key="GOOGLE_API_KEY", model="google/gemini-4-pro", module="pydantic_ai.models.google"
    ),
    "http": (
        """
import midturn.http_body
from midturn.http_server import Health, serving
"""
    ),
    "web": (
        """
import asyncio, midturn as mt
from midturn.web import inbox
from starlette.requests import Request
sent = []
async def ask() -> None:
    scope = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "query_string": b"", "root_path": "", "scheme": "http",
             "headers": [(b"host", b"127.0.0.1")], "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1), "http_version": "1.1"}
    async def receive() -> dict: return {"type": "http.request", "body": b"", "more_body": False}
    async def send(message: dict) -> None: sent.append(message)
    await inbox(mt.MemoryStore(), user=lambda request: "ada")(scope, receive, send)
asyncio.run(ask())
assert b"You're all caught up" in b"".join(message.get("body", b"") for message in sent)
import uvicorn, segno
"""
    ),
    "webpush": (
        """
import pathlib, tempfile
from midturn.web.push import PushKeys
assert len(PushKeys(pathlib.Path(tempfile.mkdtemp()) / "push.json", "http://x.localhost:7478").public) == 87
import aiohttp, cryptography
"""
    ),
    "email": (
        """
from midturn.channels.email import Email
Email("bot@example.org", "no", smtp="smtps://mail.example.org", imap="imaps://mail.example.org", authserv_id="mail.example.org")
"""
    ),
    "slack": (
        """
from midturn.channels.slack import Slack
Slack("xoxb-no", "xapp-no")
"""
    ),
    "discord": (
        """
from midturn.channels.discord import Discord
Discord("no token")
"""
    ),
    "matrix": (
        """
from midturn.channels.matrix import Matrix
Matrix("https://matrix.example.org", "no")
"""
    ),
    "ntfy": (
        """
from midturn.channels.ntfy import Ntfy
Ntfy("questions")
"""
    ),
    "telegram": (
        """
from midturn.channels.telegram import Telegram
Telegram("1:no")
"""
    ),
    "notify": "import apprise\nassert apprise.Apprise().add('ntfy://topic')\n",
    "mcp": (
        """
import subprocess, sys
words = ["mcp", "--print-config", "claude"]
subprocess.run([sys.executable, "-m", "midturn", *words], check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
import mcp
"""
    ),
    "postgres": (
        """
import midturn as mt
mt.open_store("postgresql://nobody@127.0.0.1:1/none")
import psycopg, psycopg_pool, psycopg_binary
"""
    ),
    "acp": "import acp\n",
    "a2a": "import midturn.integrations.a2a\n",
    "agui": "import midturn.integrations.agui\n",
    "dbos": "import midturn.agent.dbos\nimport dbos\n",
    "otel": "import opentelemetry.trace\n",
    "pydantic-ai": "import midturn.integrations.pydantic_ai\n",
    "langgraph": "import midturn.integrations.langgraph\n",
    "openai-agents": "import midturn.integrations.openai_agents\n",
}


EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "": ("first_agent.py", "four_questions.py", "own_loop.py", "typed_answers.py"),
    "langgraph": ("frameworks/with_langgraph.py",),
    "openai-agents": ("frameworks/with_openai_agents.py",),
    "pydantic-ai": ("frameworks/with_pydantic_ai.py",),
}
"""Examples that need no input, by the extra that they need."""


def main(wanted: list[str]) -> int:
    """Try everything or the named parts; return the exit status."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    untried = set(declared) - set(TRIES) - {"all"}
    failed = [f"{name} (no try is written for it)" for name in sorted(untried)]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-d", folder],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        wheel, source = next(Path(folder).glob("*.whl")), next(Path(folder).glob("*.tar.gz"))
        for name in wanted or ["sdist", "base", *declared]:
            is_source = name == "sdist"
            good = tried(
                source if is_source else wheel, "base" if is_source else name, Path(folder)
            )
            failed += (
                [] if good and not (is_source and differs(source, wheel, Path(folder))) else [name]
            )
    for name in failed:
        print(f"FAILED: {name or 'the base install'}")
    return 1 if failed else 0


def differs(source: Path, wheel: Path, folder: Path) -> bool:
    """Return whether the source archive builds a different wheel, built as a packager would."""
    built = folder / "from-source"
    subprocess.run(
        [
            UV,
            "build",
            "--quiet",
            "--wheel",
            "--python",
            sys.executable,
            "-o",
            str(built),
            str(source),
        ],
        check=True,
    )
    found, expected = (
        {name: archive.read(name) for name in archive.namelist()}
        for archive in (zipfile.ZipFile(next(built.glob("*.whl"))), zipfile.ZipFile(wheel))
    )
    different = sorted(
        name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)
    )
    print(
        f"{len(found)} files in the wheel from the source archive, {len(different)} differ"
        f" {different[:5] or ''}".rstrip(),
        flush=True,
    )
    return bool(different)


def tried(archive: Path, extra: str, folder: Path) -> bool:
    """Install the archive with an extra ("base" for none) and run its trial."""
    extra = "" if extra == "base" else extra
    home = folder / f"with-{extra or 'nothing'}"
    python = home / "bin" / "python"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, str(home)], check=True)
    install = [
        UV,
        "pip",
        "install",
        "--quiet",
        "--python",
        str(python),
        f"{archive}[{extra}]" if extra else str(archive),
    ]
    subprocess.run(install, check=True)
    programs = TRIES.values() if extra == "all" else [TRIES[extra] if extra else BASE]
    runs = [
        subprocess.run(
            [python, "-I", "-c", program], cwd=folder, capture_output=True, text=True, check=False
        )
        for program in programs
    ]
    for example in EXAMPLES.get(extra, ()):
        copy = Path(shutil.copy(ROOT / "examples" / example, home))
        runs.append(
            subprocess.run(
                [python, copy],
                cwd=home,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
        )
    packages, megabytes = size(home)
    has_page = any(home.glob("lib/python*/site-packages/nh3"))  # only the page uses nh3
    is_small = bool(extra) or (packages <= MOST_PACKAGES and megabytes <= MOST_MEGABYTES)
    print(
        f"{extra or ('sdist' if archive.suffix == '.gz' else 'base'):14} {packages:3} packages,"
        f" {megabytes:5.1f} MB",
        flush=True,
    )
    for run in runs:
        if run.returncode:
            print(run.stdout + run.stderr)
    if not is_small:
        print(f"The base install may have {MOST_PACKAGES} packages and {MOST_MEGABYTES} MB.")
    if has_page and extra not in WITH_PAGE:
        print(f"The extra {extra!r} installs the packages of the web page.")
    shutil.rmtree(home)
    return is_small and has_page <= (extra in WITH_PAGE) and not any(run.returncode for run in runs)


def size(home: Path) -> tuple[int, float]:
    """Return the number of packages, including midturn, and their megabytes without compiled
    code.
    """
    packages = next(home.glob("lib/python*/site-packages"))
    files = [path for path in packages.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return (
        len([*packages.glob("*.dist-info")]),
        sum(path.stat().st_size for path in files) / 1_000_000,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
