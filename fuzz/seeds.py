"""Seeds of the fuzzers: a few inputs per target that get far in the code, and the suite of JSON
documents.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = Path(__file__).parent / "kept"
"""Inputs that once broke something, by target. They are tried in every run."""

_TURN = (
    b'{"type":"turn_start","timestamp":"2026-11-21T12:00:00Z","event_id":"e1","more":1}\n'
    b'{"type":"chat_request","event_id":"e2","content":"Ship it"}\n'
    b'{"type":"tool_call_request","event_id":"e3","id":"call_1","name":"deploy","arguments":{"env":"staging"},"more":1}\n'
    b'{"type":"inquiry_request","event_id":"e4","id":"call_1.confirm.1","call":"e3","question_id":"confirm",'
    b'"source":{"source":"tool","name":"deploy"},"question":{"text":"Really?","answer_type":{"type":"boolean"}}}\n'
    b'{"type":"inquiry_response","event_id":"e5","outcome":"answered","id":"call_1.confirm.1","answer":true}\n'
    b'{"type":"approval","event_id":"e6","id":"a1","call":"e3","kind":"run","state":"approved","arguments_sha256":"x"}\n'
)
_CONFIGURATION = (
    (
        b'[conversation.tools.x]\ncommand=["sh"]\nrun="unattended"\n[conversation.tools.mine]\nrun="unattended"\nresult="unattended"\n'
        b"sandbox=false\n"
    ),
    b'[assistant.model]\nid="scripted:play.json"\n[assistant.model.parameters]\nextra_headers={A="b"}\ntemperature=0.5\n',
    b'[limits]\nrepeats=100000\nshown=1\n[conversation.tools."*"]\nrun="skip"\nenable="off"\n',
    b'[conversation.tools.ask_user.questions."*"]\nanswer=true\ntarget="assistant"\nexclusive=false\n[prompt]\nbell=true\n',
    b'[providers.mcp.x]\ncommand=["sh"]\n[providers.llm.openai]\nbase_url="http://x"\n[notify]\ncommand=["x"]\n',
)
_SCHEMAS = (
    (
        b'{"type":"object","properties":{"a":{"type":"integer","minimum":1},"b":{"$ref":"#/$defs/c"}},"required":["a"],'
        b'"$defs":{"c":{"enum":["x",1,null]}}}'
    ),
    b'{"anyOf":[{"type":"string","pattern":"^(a+)+$","maxLength":9},{"type":"array","items":{"type":"number"},"uniqueItems":true}]}',
    b'{"$ref":"http://127.0.0.1/x"}',
    b'{"$schema":"file:///etc/passwd","not":{"const":1}}',
)
_OUTCOMES = (
    b'{"type":"success","content":"ok"}',
    b'{"type":"error","message":"no","trace":["a"],"transient":true}',
    b'{"type":"needs_input","question":{"id":"a","text":"Which?","answer_type":{"type":"select","options":["x",{"value":1}]},"default":"x"}}',
    (
        b'{"type":"needs_input","questions":[{"id":"a","text":"Yes?","answer_type":{"type":"boolean"}},{"id":"b","text":"Why?",'
        b'"answer_type":{"type":"schema","schema":{"type":"string"}},"when":{"question_id":"a","equals":true},"optional":true}]}'
    ),
)
_REQUESTS = (
    b"GET\n/\n\n",
    b"GET\n/api/questions?after=x&limit=1\naccept:application/json\n",
    b'POST\n/api/questions/x/answer\ncontent-type:application/json|sec-fetch-site:same-origin\n{"value":true}',
    b"POST\n/q/x\ncontent-type:application/x-www-form-urlencoded|sec-fetch-site:same-origin|origin:null\nvalue=true&reason=x",
    b"GET\n/c/1?page=2\n\n",
    b"GET\n/api/openapi.json\n\n",
)
_KEYS = (
    b"\x1b[A\x1bOB\x1b[200~pasted\r\ntext\x1b[201~y\r",
    b"\x1b]0;t\x07\x1b[27;2;13~\x1b[M !!\x1b\x1b[Z",
    "né\u202e漢\x9b1m".encode(),
)
_TEXTS = (
    "a\x1b[31m\u202e\u200b漢👩\u200d👧\ufe0f⟨U+202E⟩".encode(),
    "a\u0301\u0301\u0301\u0301\u0301\t\r\n".encode(),
    "\ud800x".encode("utf-32-le", "surrogatepass"),
)


def seeds() -> Mapping[str, Sequence[bytes]]:
    """Return the initial inputs of each target: the seeds and the kept inputs."""
    suite = [
        json.loads(line)
        for line in (
            (ROOT / "tests" / "data" / "json_test_suite" / "test_parsing.jsonl")
            .read_text()
            .splitlines()
        )
    ]
    documents = [base64.b64decode(case["base64"]) for case in suite if "times" not in case]
    given: Mapping[str, Sequence[bytes]] = {
        "events": (_TURN, *documents),
        "outcome": (*_OUTCOMES, *documents),
        "schema": (*_SCHEMAS, *documents),
        "configuration": _CONFIGURATION,
        "text": _TEXTS,
        "walker": (bytes(range(64)), bytes(range(255, 0, -3)), b"\x82" + bytes([6, 0, 3, 0] * 20)),
        "keys": _KEYS,
        "web": _REQUESTS,
    }
    return {target: (*begin, *kept(target)) for target, begin in given.items()}


def kept(target: str) -> list[bytes]:
    """Return the inputs that once broke something."""
    return [file.read_bytes() for file in sorted((KEPT / target).glob("*"))]
