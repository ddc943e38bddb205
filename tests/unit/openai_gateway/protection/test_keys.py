"""Keys: made, stored as hashes, found again, changed while the gateway runs."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from openai_gateway.protection.key_ring import KeyRing
from openai_gateway.protection.keys import ApiKey, hash_of, new_key, parse_keys
from python_llm.errors import CallerMistake
from triton_llm.cli import main

HASH = hash_of("k")


def entry(**fields: object) -> str:
    return json.dumps({"name": "a", "hash": HASH, **fields})


def test_a_key_is_found_by_itself_alone() -> None:
    key = new_key()
    ring = KeyRing(text=ApiKey(name="a", hash=hash_of(key), tenant="t", priority=-1, models=("m",)).line())
    found = ring.find(key)
    assert found is not None
    assert found.caller().tenant == "t"
    assert found.caller().may_use("m:2")
    assert not found.caller().may_use("n")
    assert ring.find(key[:-1]) is ring.find("") is ring.find(found.hash) is None
    assert key not in ring.__dict__.__repr__()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "GATEWAY_KEYS:1: no JSON"),
        ("[]", "no JSON object"),
        (entry(tennant="x"), "'tennant' is not known; did you mean 'tenant'?"),
        (entry(colour="x"), "'colour' is not known; known: name, hash"),
        ('{"name": "a"}', "'hash' is missing"),
        (entry(name="a b"), "key name 'a b': it must be"),
        (entry(hash="sha256:12"), "hash: it must be sha256: and 64 hex digits"),
        (entry(hash="k"), "hash: it must be"),
        (entry(models="m"), "models: it must be a list of names"),
        (entry(scopes=["root"]), "scopes: it must be a list of api, metrics, admin"),
        (entry(scopes=[]), "scopes"),
        (entry(max_running=-1), "max_running: it must be 0 or more"),
        (entry(max_running=True), "max_running"),
        (entry(priority="high"), "priority: it must be an integer"),
        (entry(expires="soon"), "expires: it must be a date as 2027-01-31"),
        (entry() + "\n" + entry(), "GATEWAY_KEYS:2: key 'a' has the name or the hash of another"),
        (entry() + "\n" + entry(name="b"), "has the name or the hash of another"),
    ],
)
def test_a_line_that_is_no_key_says_what_is_wrong(line: str, said: str) -> None:
    with pytest.raises(CallerMistake, match=said.replace("(", r"\(").replace("?", r"\?").replace("[", r"\[")):
        KeyRing(text=line)


def test_blank_lines_and_remarks_are_passed_over() -> None:
    assert [key.name for key in parse_keys(f"\n# of the team\n  {entry()}\n", "f")] == ["a"]


def test_a_line_says_only_what_is_not_usual_and_is_read_back_the_same() -> None:
    key = ApiKey(name="a", hash=HASH, models=("m", "n"), max_running=0, expires="2030-01-01")
    assert json.loads(key.line()).keys() == {"name", "hash", "models", "max_running", "expires"}
    assert parse_keys(key.line(), "f") == [key]


def test_an_expired_key_is_not_taken() -> None:
    assert KeyRing(text=entry(expires="2020-01-01")).find("k") is None
    assert KeyRing(text=entry(expires="2999-01-01")).find("k") is not None


class Clock:
    now = 0.0

    def __call__(self) -> float:
        self.now += 10
        return self.now


def test_the_file_is_read_again_when_it_changes_and_a_broken_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys.jsonl"
    file.write_text(entry())
    ring = KeyRing(file, clock=Clock())
    assert ring.find("k")
    file.write_text(f"{entry(hash=hash_of('other'))}\n")
    assert ring.find("k") is None
    assert ring.find("other")
    file.write_text("{")
    assert ring.find("other")
    assert ring.find("other")
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    file.unlink()
    assert ring.find("other")
    assert ring.find("other")
    assert [record.levelname for record in caplog.records].count("ERROR") == 2
    file.write_text("")
    assert ring.find("other") is None
    assert ring.configured, "a file without keys lets nobody in"


def test_a_file_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(CallerMistake, match="No such file or directory; 'triton-llm gateway-key NAME --file"):
        KeyRing(tmp_path / "none")


def test_the_verb_shows_a_key_once_and_stores_its_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "keys.jsonl"
    assert main(["gateway-key", "alice", "--file", str(file), "--scope", "admin", "--max-running", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["key"] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert main(["gateway-key", "bob", "--file", str(file)]) == 0
    assert "key (shown this once): tllm-" in capsys.readouterr().out
    assert main(["gateway-key", "alice", "--file", str(file)]) == 2
    ring = KeyRing(file)
    found = ring.find(told["key"])
    assert found is not None
    assert (found.name, found.scopes, found.max_running) == ("alice", ("admin",), 2)
