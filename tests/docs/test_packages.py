"""Built packages: two builds are equal and have the expected files."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import jsonschema_rs
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.documents import DOCUMENTS, ROOT, blocks, is_updating
from support.shared_files import configuration_schema, shared_files

MOST_PACKAGES, MOST_MEGABYTES = 16, 45


def built(folder: Path) -> dict[str, bytes]:
    """Build wheel and source archive; return them by name."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        check=True,
    )
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.long
def test_two_builds_are_equal_and_complete(tmp_path: Path) -> None:
    first, second = built(tmp_path / "one"), built(tmp_path / "two")

    assert first == second
    wheel = next((tmp_path / "one").glob("*.whl"))
    names = zipfile.ZipFile(wheel).namelist()
    assert {"midturn/py.typed", "midturn/__init__.pyi", "midturn/cli/main.py"} <= set(names)
    assert {name.split("/data/share/", 1)[1] for name in names if "/data/share/" in name} >= {
        "man/man1/midturn.1",
        "midturn/config.schema.json",
    }
    assert [name for name in names if not name.startswith(("midturn/", "midturn-"))] == []
    with tarfile.open(next((tmp_path / "one").glob("*.tar.gz"))) as archive:
        top = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert {"src", "tests", "docs", "README.md", "LICENSE"} <= top
    assert not top & {".venv", "site", ".hypothesis"}


def base_install() -> dict[str, Distribution]:
    """Return the packages that `pip install midturn` installs, by name."""
    found: dict[str, Distribution] = {}
    wanted = ["midturn"]
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        found[name] = distribution(name)
        needed = [Requirement(line) for line in found[name].requires or []]
        wanted += [
            canonicalize_name(one.name)
            for one in needed
            if one.marker is None or one.marker.evaluate({"extra": ""})
        ]
    return found


def test_the_base_install_is_small() -> None:
    """`tools/try_extras.py` checks the same in a fresh environment."""
    packages = base_install()
    files = [
        file.locate()
        for found in packages.values()
        for file in found.files or []
        if file.suffix != ".pyc"
    ]
    megabytes = (
        sum(path.stat().st_size for path in map(Path, map(str, files)) if path.is_file())
        / 1_000_000
    )

    assert not {"starlette", "mcp", "psycopg", "pydantic", "apprise", "opentelemetry-api"} & set(
        packages
    )
    assert len(packages) <= MOST_PACKAGES, sorted(packages)
    assert megabytes <= MOST_MEGABYTES


@pytest.mark.parametrize("path", shared_files(), ids=lambda path: path.name)
def test_generated_files_are_current(path: Path) -> None:
    content = shared_files()[path]
    if is_updating():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == content, "set UPDATE_DOCUMENTS=1 to write it anew"


def test_the_schema_for_editors_takes_what_the_configuration_takes() -> None:
    validator = jsonschema_rs.validator_for(dict(configuration_schema()))

    good = {
        "assistant": {"model": {"id": "openai/gpt-6-astra"}},
        "conversation": {"tools": {"*": {"run": "ask"}, "deploy": {"run": "skip"}}},
    }
    assert validator.is_valid(good)
    assert not validator.is_valid({"assistent": {}})
    assert not validator.is_valid({"limits": {"cycles": "many"}})


def test_the_schema_for_editors_takes_every_example() -> None:
    """Except the example that shows an error."""
    validator = jsonschema_rs.validator_for(dict(configuration_schema()))
    shown = [
        block
        for path in DOCUMENTS
        for block in blocks(path)
        if block.language == "toml" and "script" not in block.marks
    ]
    wrong = [
        block.place
        for block in shown
        if "protocl" not in block.text and not validator.is_valid(tomllib.loads(block.text))
    ]

    assert wrong == []


CONSUMER = """\
import midturn as mt


@mt.tool
async def deploy(env: str, ctx: mt.ToolContext) -> str:
    \"\"\"Deploy the service.\"\"\"
    sure: bool = await ctx.ask(mt.Question.boolean("sure", f"Deploy to {env}?"))
    region: str = await ctx.ask(mt.Question.select("region", "Where?", ["eu-1", "us-2"]))
    return f"{env}: {sure} {region}"


agent = mt.Agent(mt.ScriptedModel([{"text": "Hello."}]), tools=[deploy])
result = agent.run_sync("Hello.")
text: str = result.text
"""
MISTAKE = "wrong: int = result.text\n"


@pytest.fixture(scope="module")
def consumer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an interpreter whose environment has the wheel installed."""
    home = tmp_path_factory.mktemp("consumer")
    venv.create(home / "env", with_pip=False)
    packages = next((home / "env").glob("lib/python*/site-packages"))
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(home)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    subprocess.run(
        [sys.executable, "-m", "zipfile", "-e", str(next(home.glob("*.whl"))), str(packages)],
        check=True,
    )
    others = [found for name, found in base_install().items() if name != "midturn"]
    tops = {file.parts[0] for found in others for file in found.files or []} - {"..", "__pycache__"}
    for found in map(Path(sysconfig.get_paths()["purelib"]).joinpath, tops):
        if found.exists() and not (packages / found.name).exists():
            (packages / found.name).symlink_to(found)
    return home / "env" / "bin" / "python"


@pytest.mark.together
@pytest.mark.long
@pytest.mark.timeout(600)  # mypy reads the whole package
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_installed_wheel_has_types(
    checker: str, consumer: Path, tmp_path: Path, cache: pytest.Cache
) -> None:
    (tmp_path / "good.py").write_text(CONSUMER)
    (tmp_path / "bad.py").write_text(CONSUMER + MISTAKE)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    options = {
        # mostly Python's own types
        "mypy": [
            "--strict",
            f"--python-executable={consumer}",
            f"--cache-dir={cache.mkdir('mypy')}",
        ],
        "pyright": ["--pythonpath", str(consumer)],
    }[checker]

    command = [sys.executable, "-m", checker, *options, "good.py", "bad.py"]
    run = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    (wrong,) = [line for line in run.stdout.splitlines() if "error: " in line]

    assert f"bad.py:{len(CONSUMER.splitlines()) + 1}:" in wrong
