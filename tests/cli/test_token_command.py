"""`tailrace token`: its output as text and as JSON, and its errors."""

import json
import os
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from bson import decode, encode, json_util
from pymongo.database import Database

from tailrace.cli.main import main
from tailrace.events.resume_token import ResumeToken
from tests.cli.console import Here, tailrace

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "resume-token-vectors.json").read_text())

INSERT_V1 = (
    "8260C141FB000000012B022C0100296E5A1004A218803030714C459C992DB04FF9FCC9"
    "46645F6964006460C141FBD13ABDA125B2C9510004"
)
INSERT_V2 = (
    "82635019A0000000012B042C0100296E5A1004AB1154ACACD849A48C61756D70D3B21F463C6F7065726174696F6E54797065003C696E73"
    "6572740046646F63756D656E744B65790046645F69640064635019A078BE67426D7CF4D2000004"
)
MARK = "8263515EAC000000022B0429296E1404"


def test_a_process_explains_an_event() -> None:
    outcome = tailrace("token", INSERT_V2)
    assert (outcome.code, outcome.error) == (0, "")
    lines = dict(line.split("  ", 1) for line in outcome.lines if "  " in line)
    rows = {label.strip(): text.strip() for label, text in lines.items()}
    assert rows["cluster time"] == "2022-10-19T15:37:04Z, increment 1 (Timestamp(1666193824, 1))"
    assert rows["version"].startswith("2, written by MongoDB 7.0")
    assert rows["kind"] == "event"
    assert rows["collection UUID"] == "ab1154ac-acd8-49a4-8c61-756d70d3b21f"
    assert rows["operation"] == "insert"
    assert rows["document key"] == '{"_id": {"$oid": "635019a078be67426d7cf4d2"}}'
    assert "after this one" in outcome.lines[-1]


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("82", "the resume token is damaged: the bytes end in the middle of a value; give the whole"),
        (f"{MARK[:-4]}FF04", "the resume token is damaged: 0xFF is not a type byte; give the whole"),
        ("", "the resume token is empty"),
        ("xyz", "hex digits"),
        ("\udcff", "TOKEN is not UTF-8"),
        ('{"_data": 1}', "string field _data"),
        ('{"_data": ', "TOKEN does not parse"),
        ("{}", "string field _data"),
        ("8260...", "cut off within its cluster time"),
        ("zz...", "cut off within its cluster time"),
        (MARK[:20], "the resume token"),
    ],
)
def test_a_text_that_is_not_a_token_is_refused_in_one_sentence(here: Here, token: str, words: str) -> None:
    outcome = here("token", token)
    assert (outcome.code, outcome.output) == (2, b"")
    assert words in outcome.sentence


def test_a_process_refuses_it_too() -> None:
    outcome = tailrace("token", "82")
    assert (outcome.code, outcome.output) == (2, b"")
    assert "(15 Overflow)" in outcome.sentence


def test_the_output_is_utf8_in_every_locale() -> None:
    token = f"{INSERT_V1[: INSERT_V1.index('46645F696400')]}463C61003CC3A4000004"
    command = [sys.executable, "-m", "tailrace", "token", token]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, env=environment, check=True, timeout=60)
    assert '{"a": "ä"}' in done.stdout.decode()


def explained(capsys: pytest.CaptureFixture[str], token: str) -> str:
    assert main(["token", token]) == 0
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], token: str) -> dict[str, object]:
    assert main(["token", token, "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found: dict[str, object] = json.loads(line)
    return found


def test_version_1_shows_what_it_does_not_contain(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, INSERT_V1)
    assert "2021-06-09T22:34:35Z, increment 1" in text
    assert "1, written by MongoDB 4.0 to 6.0" in text
    assert "a document change" in text
    assert '{"_id": {"$oid": "60c141fbd13abda125b2c951"}}' in text


# As the article on resuming prints them.
@pytest.mark.parametrize(
    ("token", "time", "version"),
    [
        ("8260C141F8000000012B0...", "2021-06-09T22:34:32Z, increment 1", None),
        ("8260C13C93000000012B022...", "2021-06-09T22:11:31Z, increment 1", 1),
        ("8260C13D20000000012...", "2021-06-09T22:13:52Z, increment 1", None),
        ("8260C13D20000000012B...", "2021-06-09T22:13:52Z, increment 1", None),
        (INSERT_V1[:31] + "\N{HORIZONTAL ELLIPSIS}", "2021-06-09T22:34:35Z, increment 1", 1),
        ('{"_data": "8260C141F8000000012B0..."}', "2021-06-09T22:34:32Z, increment 1", None),
    ],
)
def test_cut_off_tokens_are_explained_up_to_the_cut(
    capsys: pytest.CaptureFixture[str], token: str, time: str, version: int | None
) -> None:
    text = explained(capsys, token)
    assert time in text
    assert "cut off" in text
    found = as_json(capsys, token)
    assert found["cutOff"] is True
    assert found.get("version") == (None if version is None else {"$numberInt": str(version)})
    assert "documentKey" not in found


@pytest.mark.parametrize("token", [INSERT_V1, INSERT_V2, MARK])
def test_the_explanation_of_a_token_cut_anywhere_is_right(
    capsys: pytest.CaptureFixture[str], token: str
) -> None:
    whole = as_json(capsys, token)
    for length in range(18, len(token)):
        cut = as_json(capsys, token[:length] + "...")
        assert cut.pop("cutOff") is True
        assert "cannot be resumed from" in str(cut.pop("meaning"))
        assert all(whole[name] == value for name, value in cut.items()), length


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_every_vector_is_explained(capsys: pytest.CaptureFixture[str], vector: dict[str, str]) -> None:
    decoded = json.loads(json.dumps(vector["decoded"]))
    document: dict[str, object] = {"_data": vector["token_hex"]}
    if vector["typeBits"]:
        base64 = b64encode(bytes.fromhex(vector["typeBits"])).decode()
        document["_typeBits"] = {"$binary": {"base64": base64, "subType": "00"}}
    token = json.dumps(document)
    found = as_json(capsys, token)
    assert found["clusterTime"] == {"$timestamp": decoded["clusterTime"]}
    assert found["version"] == {"$numberInt": str(decoded["version"])}
    assert found["txnOpIndex"] == {"$numberInt": str(decoded["txnOpIndex"])}
    assert found["fromInvalidate"] == bool(decoded["fromInvalidate"])
    assert found["cutOff"] is False
    assert ("uuid" in found) == (decoded["uuid"] is not None)
    assert ("operation" in found) == (decoded["tokenType"] != 0)
    text = explained(capsys, token)
    assert ("high water mark" in text) == (decoded["tokenType"] == 0)
    assert ("startAfter" in text) == bool(decoded["fromInvalidate"])


@pytest.mark.parametrize(
    ("identifier_hex", "shown"),
    [
        ("1E61002B0A", '{"a": 5}'),
        ("7861007880000000000003E8", '{"a": {"$date": "1970-01-01T00:00:01.000Z"}}'),
        ("3C61003CC3A400", '{"a": "ä"}'),
    ],
)
def test_document_keys_are_readable(
    capsys: pytest.CaptureFixture[str], identifier_hex: str, shown: str
) -> None:
    head = INSERT_V1[: INSERT_V1.index("46645F696400")]
    assert shown in explained(capsys, f"{head}46{identifier_hex}0004")


@pytest.mark.parametrize(
    ("identifier", "operation", "shows_key"),
    [
        ({"operationType": "create"}, "create", False),
        ({"operationType": "create", "operationDescription": {"a": 1}}, "create", False),
        ({"operationType": "insert", "documentKey": {"_id": 1}}, "insert", True),
        ({"operationType": "insert", "_id": 1}, "a document change", True),
        ({"_id": 1, "operationType": "insert"}, "a document change", True),
    ],
)
def test_version_1_may_name_the_operation(
    capsys: pytest.CaptureFixture[str], identifier: dict[str, object], operation: str, shows_key: bool
) -> None:
    """A document key may have a field of that name too."""
    token = ResumeToken(1 << 32, version=1, uuid=bytes(16), identifier=encode(identifier))
    found = as_json(capsys, json.dumps(decode(token.to_bson())))
    assert str(found["operation"]).startswith(operation)
    key = identifier.get("documentKey", identifier) if shows_key else None
    shown = found.get("documentKey")
    assert (None if shown is None else json_util.loads(json.dumps(shown))) == key


def test_a_high_water_mark_needs_no_event(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, MARK)
    assert "kind              high water mark" in text
    assert "no event has to match" in text
    assert "operation" not in text


def test_lower_case_and_spaces_around(capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(capsys, f"  {INSERT_V1.lower()}\n") == explained(capsys, INSERT_V1)


def test_a_pipeline_that_hides_the_event_of_a_token_is_shown(
    here: Here, tailrace_uri: str, tailrace_database: Database[dict[str, Any]]
) -> None:
    with tailrace_database.orders.watch() as stream:
        tailrace_database.orders.insert_many([{"_id": number} for number in range(3)])
        token = [next(stream)["_id"]["_data"] for _ in range(3)][1]
    ns = f"{tailrace_database.name}.orders"
    arguments = ("token", token, "--source", tailrace_uri, "--ns", ns, "--json", "--pipeline")
    for number, is_hidden in ((1, False), (2, True)):
        outcome = here(*arguments, json.dumps([{"$match": {"documentKey._id": number}}]))
        assert outcome.code == 0
        resumption = json.loads(outcome.output)["resumption"]
        assert (resumption["resumable"], resumption["hiddenByPipeline"]) == (True, is_hidden)
    hiding = json.dumps([{"$match": {"operationType": "delete"}}])
    text = here("token", token, "--source", tailrace_uri, "--ns", ns, "--pipeline", hiding).lines
    assert any(line.startswith("pipeline          hides the event of the token; ") for line in text)
    assert "name it with --source" in here("token", token, "--pipeline", "[]").sentence
    assert "Unrecognized pipeline stage" in here(*arguments, '[{"$nonsense": 1}]').sentence
