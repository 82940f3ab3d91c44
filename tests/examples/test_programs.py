"""The example programs: workers, many questions at once, frameworks, servers, tests.

Each is short.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

import midturn as mt
from support.programs import NO_PYTEST_PLUGINS, PROGRAMS, play, running, served_by

SHORT = [*sorted(PROGRAMS.glob("*.py")), *sorted((PROGRAMS.parent / "frameworks").glob("*.py"))]
LONGEST = 100
AT_ONCE = """\
To the party come: Ada, Eve (only for the cake).
To the meeting come: Ada, Eve (only for the cake).
Everybody is asked.
6 questions were open at once.
"""


@pytest.mark.parametrize("path", SHORT, ids=lambda path: path.stem)
def test_a_program_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST


def test_another_worker_records_the_answer(tmp_path: Path) -> None:
    with ExitStack() as workers:
        one, other = (
            workers.enter_context(served_by(PROGRAMS / "service.py", tmp_path)) for _ in range(2)
        )
        begun = one.post("/turns", json={"text": "Ship it."}).json()
        (asked,) = other.get("/questions").json()
        assert (begun["status"], begun["pending"][0]["id"], asked["question_id"]) == (
            "suspended",
            asked["id"],
            "confirm",
        )

        misfit = other.post(f"/answers/{asked['id']}", json={"value": "perhaps"})
        assert (misfit.status_code, "true or false" in misfit.text) == (422, True)

        goes_on = other.post(
            f"/answers/{asked['id']}", json={"value": True}, headers={"x-user": "ada"}
        ).json()
        late = one.post(f"/answers/{asked['id']}", json={"value": False})
        assert (late.status_code, late.json()["answered_by"]["who"]) == (409, "ada")
        (region,) = goes_on["pending"]
        done = one.post(f"/answers/{region['id']}", json={"value": "us-2"}).json()

    assert (done["status"], done["text"]) == ("completed", "Done.")


def test_questions_of_a_shop_reach_only_its_staff(tmp_path: Path) -> None:
    with served_by(PROGRAMS / "support.py", tmp_path) as client:

        def get(path: str, user: str) -> httpx.Response:
            return client.get(path, headers={"x-user": user})

        def answer(shop: str, user: str) -> int:
            path, headers = f"/{shop}/inbox/api/questions/{asked['id']}/answer", {"x-user": user}
            return client.post(path, json={"value": True}, headers=headers).status_code

        begun = client.post(
            "/acme/messages", json={"text": "My kettle broke."}, headers={"x-user": "kim"}
        ).json()
        (asked,) = get("/acme/inbox/api/questions", "ana").json()
        assert (begun["status"], asked["people"]["may_answer"]) == ("suspended", ["ana", "bo"])
        kept = f"/acme/messages/{begun['conversation']}"

        assert (
            get("/globex/inbox/api/questions", "cy").json(),
            get("/acme/inbox/api/questions", "cy").status_code,
        ) == ([], 401)
        assert (answer("acme", "cy"), answer("globex", "cy"), answer("acme", "kim")) == (
            401,
            404,
            401,
        )
        assert get(kept, "kim").json()["status"] == "suspended"
        assert (
            get(kept, "lou").status_code,
            get(kept.replace("acme", "globex"), "kim").status_code,
        ) == (404, 404)

        assert answer("acme", "bo") == 200
        while (reply := get(kept, "kim").json())["status"] == "suspended":
            time.sleep(0.02)
        assert reply == {"status": "completed", "text": "40 € are on their way."}
        assert answer("acme", "ana") == 409


def test_killed_job_resumes_and_reports_decisions(tmp_path: Path) -> None:
    store = tmp_path / "var" / "rows"
    with running(PROGRAMS / "rows.py", tmp_path) as job:
        while not (store.is_dir() and len(list(store.glob("*-rows-*"))) > 20):
            time.sleep(0.001)
    assert job.returncode == -signal.SIGKILL
    assert play(PROGRAMS / "rows.py", tmp_path).stdout == "240 decided by house rules, 10 open\n"

    kept = mt.open_store(store)
    for number, question in enumerate(kept.pending_sync()):
        kept.answer_sync(question, "12.50", user="ana" if number else "bo")
    (one, other) = (play(PROGRAMS / "rows.py", tmp_path).stdout for _ in range(2))
    assert one == other == "240 decided by house rules, 9 decided by ana, 1 decided by bo, 0 open\n"
    asked = [pair.request.id for id in kept.ids_sync() for pair in kept.read_sync(id).pairs()]
    assert (len(kept.ids_sync()), len(asked)) == (
        100,
        250,
    ), "what was begun before the kill was not begun again"


def test_agreement_of_judges_is_computed_from_the_log(tmp_path: Path) -> None:
    assert (
        play(PROGRAMS / "judges.py", tmp_path).stdout
        == "ana agrees with most about 4 of 4 tickets\nbo agrees with most about 3 of 4 tickets\ncy"
        " agrees with most about 3 of 4 tickets\n"
    )


def test_job_killed_in_the_first_write_of_a_batch_restarts_it(tmp_path: Path) -> None:
    assert play(PROGRAMS / "rows.py", tmp_path).stdout == "240 decided by house rules, 10 open\n"
    log = min((tmp_path / "var" / "rows").glob("*-rows-*/events.jsonl"))
    log.write_bytes(log.read_bytes()[:100])

    again = play(PROGRAMS / "rows.py", tmp_path)

    assert (again.stdout, again.stderr) == ("240 decided by house rules, 10 open\n", "")
    assert len(mt.open_store(tmp_path / "var" / "rows").ids_sync()) == 100


def test_many_are_asked_at_once(tmp_path: Path) -> None:
    played = play(PROGRAMS / "at_once.py", tmp_path)
    assert (played.stdout, played.stderr) == (AT_ONCE, "")


def test_self_hosted_model_gets_its_settings(tmp_path: Path) -> None:
    played = play(PROGRAMS / "own_server.py", tmp_path)
    assert (played.stdout, played.stderr) == (
        "I hear: staging is live. (2 requests, 220 tokens)\n",
        "",
    )


def test_migrated_program_is_answered_as_with_input(tmp_path: Path) -> None:
    played = play(PROGRAMS / "migrated.py", tmp_path, typed="2\n3\ny\n")
    assert (played.stdout.endswith("Ordered: 3 large boxes. Thank you.\n"), played.stderr) == (
        True,
        "",
    )


def test_example_tests_need_no_setup(tmp_path: Path) -> None:
    options = (
        "-q",
        "-c",
        "/dev/null",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        *NO_PYTEST_PLUGINS,
    )
    command = [sys.executable, "-m", "pytest", *options, str(PROGRAMS / "test_deploy.py")]
    played = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        start_new_session=True,
        check=False,
    )
    assert "5 passed" in played.stdout, played.stdout + played.stderr
