"""The same programs with midturn and with other frameworks behave the same, and their lines are
counted.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest

import midturn as mt
from support.documents import ROOT, assert_section
from support.programs import OTHER_FRAMEWORKS, PROGRAMS, code_lines, play, served_by
from support.waiting import until

PEERS = {
    "langgraph": "LangGraph",
    "pydantic_ai": "Pydantic AI",
    "openai_agents": "OpenAI Agents SDK",
}
WHAT = {
    "support": (
        "a support bot on FastAPI: what a shop decides reaches its own people, the first answer"
        " counts, a kill loses nothing"
    ),
    "rows": (
        "a job of 10,000 rows: rules decide most, people the rest, from another process; it goes"
        " on, and reports who decided what"
    ),
    "judges": "an evaluation with three scripted judges, whose agreement is read from what is kept",
}


def all_of(program: str) -> list[Path]:
    return [
        PROGRAMS / f"{program}.py",
        *(OTHER_FRAMEWORKS / f"{program}_{peer}.py" for peer in PEERS),
    ]


def every(program: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", all_of(program), ids=lambda path: path.stem)


def as_(user: str) -> dict[str, str]:
    return {"x-user": user}


def begin_conversation(client: httpx.Client, shop: str, customer: str) -> str:
    """Send a customer's message to a shop; return the conversation, which waits for a decision of
    the shop.
    """
    said = client.post(
        f"/{shop}/messages", json={"text": "My kettle broke."}, headers=as_(customer)
    ).json()
    assert said["status"] == "suspended"
    return said["conversation"]


def answered(client: httpx.Client, shop: str, question: str, user: str) -> int:
    path = f"/{shop}/inbox/api/questions/{question}/answer"
    return client.post(path, json={"value": True}, headers=as_(user)).status_code


def waiting(client: httpx.Client, shop: str, user: str) -> list[str]:
    return [
        asked["id"]
        for asked in client.get(f"/{shop}/inbox/api/questions", headers=as_(user)).json()
    ]


@every("support")
def test_shop_decides_only_about_its_customers(path: Path, tmp_path: Path) -> None:
    with served_by(path, tmp_path) as client:
        conversation = begin_conversation(client, "acme", "kim")
        (question,) = waiting(client, "acme", "ana")
        assert waiting(client, "globex", "cy") == []
        assert answered(client, "acme", question, "cy") == 401
        assert answered(client, "globex", question, "cy") == 404
        assert client.get(f"/acme/messages/{conversation}", headers=as_("lou")).status_code == 404
        assert client.get(f"/globex/messages/{conversation}", headers=as_("kim")).status_code == 404

    with served_by(path, tmp_path) as client:  # after a kill
        assert (
            client.get(f"/acme/messages/{conversation}", headers=as_("kim")).json()["status"]
            == "suspended"
        )
        assert waiting(client, "acme", "bo") == [question]
        assert answered(client, "acme", question, "bo") == 200
        kept = f"/acme/messages/{conversation}"
        asyncio.run(
            until(lambda: client.get(kept, headers=as_("kim")).json()["status"] == "completed")
        )
        assert client.get(kept, headers=as_("kim")).json()["text"] == "40 € are on their way."
        assert answered(client, "acme", question, "ana") == 409


ANSWERED: dict[str, str] = {
    "langgraph": "insert into answers values (?, 'ana', 1)",
    "pydantic_ai": "update questions set user = 'ana', value = 1 where id = ?",
    "openai_agents": "update questions set user = 'ana', value = 1 where id = ?",
}
"""The state on disk after an answer was accepted and the process died.

In midturn it is the state after `store.answer`.
"""


@every("support")
def test_turn_answered_right_before_a_kill_resumes(path: Path, tmp_path: Path) -> None:
    with served_by(path, tmp_path) as client:
        kept = f"/acme/messages/{begin_conversation(client, 'acme', 'kim')}"
        (question,) = waiting(client, "acme", "ana")
    directory, peer = tmp_path / "var" / "conversations" / "acme", path.stem.partition("_")[2]
    if peer:
        kept_there = next(file for file in directory.glob("*.sqlite") if file.stem != "checkpoints")
        # the second commits, the first closes
        with closing(sqlite3.connect(kept_there)) as database, database:
            database.execute(ANSWERED[peer], (question,))
    else:
        mt.open_store(directory).answer_sync(question, True, user="ana")

    with served_by(path, tmp_path) as client:
        asyncio.run(
            until(lambda: client.get(kept, headers=as_("kim")).json()["status"] == "completed")
        )


@every("rows")
def test_job_reports_decisions_with_responders(path: Path, tmp_path: Path) -> None:
    where = str(tmp_path / "rows")

    def reported() -> str:
        ran = play(path, tmp_path, where, "10000")
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.splitlines()[0]

    def answer(question: str, user: str) -> bool:
        if path.parent == PROGRAMS:  # as `midturn answer` does
            try:
                mt.open_store(where).answer_sync(question, "12.50", user=user)
            except mt.AlreadyAnswered:
                return False
            return True
        return play(path, tmp_path, where, "answer", question, "12.50", user).returncode == 0

    assert reported() == "240 decided by house rules, 10 open"
    if path.parent == PROGRAMS:
        open_ids = [question.id for question in mt.open_store(where).pending_sync()]
    else:
        open_ids = re.findall(
            r"^(\S+) Row \d+: no amount", play(path, tmp_path, where).stdout, re.MULTILINE
        )
    assert len(open_ids) == 10
    assert answer(open_ids[0], "bo")
    assert not answer(open_ids[0], "eve")
    assert answer(open_ids[1], "ana")
    assert sorted(reported().split(", ")) == [
        "1 decided by ana",
        "1 decided by bo",
        "240 decided by house rules",
        "8 open",
    ]


@every("judges")
def test_agreement_of_judges_is_as_expected(path: Path, tmp_path: Path) -> None:
    assert (
        play(path, tmp_path).stdout
        == "ana agrees with most about 4 of 4 tickets\nbo agrees with most about 3 of 4 tickets\ncy"
        " agrees with most about 3 of 4 tickets\n"
    )


def test_line_counts_are_in_the_comparison() -> None:
    rows = ""
    for program, what in WHAT.items():
        counts = " | ".join(str(code_lines(path)) for path in all_of(program))
        rows += f"| {what} | {counts} |\n"
    heads = " | ".join(["midturn", *PEERS.values()])
    assert_section(
        ROOT / "docs" / "explanation" / "comparison.md",
        "lines",
        f"\n| | {heads} |\n| ---{' | ---:' * 4} |\n{rows}\n",
    )


def test_comments_empty_lines_and_docstrings_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        '"""What it is.\n\nMore.\n"""\n\n# why\nX = """a\nb"""\n\n\ndef f() -> None:  # here\n   '
        ' """Do."""\n'
    )
    assert code_lines(tmp_path / "m.py") == 3
