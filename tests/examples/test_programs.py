"""The kinds of programs that people build on midturn, each short enough to read: two workers, many at once, frameworks, servers, tests."""

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
from support.programs import ALONE, PROGRAMS, play, running, served_by

SHORT = [*sorted(PROGRAMS.glob("*.py")), *sorted((PROGRAMS.parent / "frameworks").glob("*.py"))]
LONGEST = 60
AT_ONCE = """\
To the party come: Ada, Eve (only for the cake).
To the meeting come: Ada, Eve (only for the cake).
Everybody is asked.
6 questions were open at once.
"""


@pytest.mark.parametrize("path", SHORT, ids=lambda path: path.stem)
def test_a_program_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST


def test_what_one_worker_asks_another_takes_the_answer_to(tmp_path: Path) -> None:
    with ExitStack() as workers:
        one, other = (workers.enter_context(served_by(PROGRAMS / "service.py", tmp_path)) for _ in range(2))
        begun = one.post("/turns", json={"text": "Ship it."}).json()
        (asked,) = other.get("/questions").json()
        assert (begun["status"], begun["pending"][0]["id"], asked["question_id"]) == ("suspended", asked["id"], "confirm")

        misfit = other.post(f"/answers/{asked['id']}", json={"value": "perhaps"})
        assert (misfit.status_code, "true or false" in misfit.text) == (422, True)

        goes_on = other.post(f"/answers/{asked['id']}", json={"value": True}, headers={"x-user": "ada"}).json()
        late = one.post(f"/answers/{asked['id']}", json={"value": False})
        assert (late.status_code, late.json()["answered_by"]["who"]) == (409, "ada")
        (region,) = goes_on["pending"]
        done = one.post(f"/answers/{region['id']}", json={"value": "us-2"}).json()

    assert (done["status"], done["text"]) == ("completed", "Done.")


def test_what_a_shop_has_to_decide_reaches_its_own_people_and_no_one_else(tmp_path: Path) -> None:
    with served_by(PROGRAMS / "support.py", tmp_path) as client:

        def get(path: str, user: str) -> httpx.Response:
            return client.get(path, headers={"x-user": user})

        def answer(shop: str, user: str) -> int:
            path, headers = f"/{shop}/inbox/api/questions/{asked['id']}/answer", {"x-user": user}
            return client.post(path, json={"value": True}, headers=headers).status_code

        begun = client.post("/acme/messages", json={"text": "My kettle broke."}, headers={"x-user": "kim"}).json()
        (asked,) = get("/acme/inbox/api/questions", "ana").json()
        assert (begun["status"], asked["people"]["may_answer"]) == ("suspended", ["ana", "bo"])
        kept = f"/acme/messages/{begun['conversation']}"

        assert (get("/globex/inbox/api/questions", "cy").json(), get("/acme/inbox/api/questions", "cy").status_code) == ([], 401)
        assert (answer("acme", "cy"), answer("globex", "cy"), answer("acme", "kim")) == (401, 404, 401)
        assert get(kept, "kim").json()["status"] == "suspended"
        assert (get(kept, "lou").status_code, get(kept.replace("acme", "globex"), "kim").status_code) == (404, 404)

        assert answer("acme", "bo") == 200
        while (reply := get(kept, "kim").json())["status"] == "suspended":
            time.sleep(0.02)
        assert reply == {"status": "completed", "text": "40 € are on their way."}
        assert answer("acme", "ana") == 409


def test_a_job_that_was_killed_goes_on_and_reports_who_decided_what(tmp_path: Path) -> None:
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
    assert (len(kept.ids_sync()), len(asked)) == (100, 250), "what was begun before the kill was not begun again"


def test_how_far_judges_agree_is_read_from_the_record(tmp_path: Path) -> None:
    assert play(PROGRAMS / "judges.py", tmp_path).stdout == (
        "ana agrees with most about 4 of 4 tickets\nbo agrees with most about 3 of 4 tickets\ncy agrees with most about 3 of 4 tickets\n"
    )


def test_a_job_that_died_in_the_first_write_of_a_batch_begins_it_again(tmp_path: Path) -> None:
    assert play(PROGRAMS / "rows.py", tmp_path).stdout == "240 decided by house rules, 10 open\n"
    log = min((tmp_path / "var" / "rows").glob("*-rows-*/events.jsonl"))
    log.write_bytes(log.read_bytes()[:100])

    again = play(PROGRAMS / "rows.py", tmp_path)

    assert (again.stdout, again.stderr) == ("240 decided by house rules, 10 open\n", "")
    assert len(mt.open_store(tmp_path / "var" / "rows").ids_sync()) == 100


def test_many_are_asked_at_once(tmp_path: Path) -> None:
    played = play(PROGRAMS / "at_once.py", tmp_path)
    assert (played.stdout, played.stderr) == (AT_ONCE, "")


def test_a_model_on_a_server_of_ones_own_is_asked_with_its_settings(tmp_path: Path) -> None:
    played = play(PROGRAMS / "own_server.py", tmp_path)
    assert (played.stdout, played.stderr) == ("I hear: staging is live. (2 requests, 220 tokens)\n", "")


def test_a_program_that_used_input_is_answered_as_before(tmp_path: Path) -> None:
    played = play(PROGRAMS / "migrated.py", tmp_path, typed="2\n3\ny\n")
    assert (played.stdout.endswith("Ordered: 3 large boxes. Thank you.\n"), played.stderr) == (True, "")


def test_the_tests_of_a_tool_pass_where_nothing_is_set_up(tmp_path: Path) -> None:
    options = ("-q", "-c", "/dev/null", "-p", "no:cacheprovider", "-p", "no:randomly", *ALONE)
    command = [sys.executable, "-m", "pytest", *options, str(PROGRAMS / "test_deploy.py")]
    played = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=90, start_new_session=True, check=False)
    assert "5 passed" in played.stdout, played.stdout + played.stderr
