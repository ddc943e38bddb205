"""``triton-llm repo --url`` against a small real HTTP server that keeps models as Triton's model control does."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from build_engines.errors import LiveFailure
from build_engines.live_server import LiveServer
from echo_artifact import make_echo_artifact
from python_llm.control_access import FILE, ControlAccess
from python_llm.errors import CallerMistake
from python_llm.settings import ADMIN_KEY_HEADER, ADMIN_KEY_VARIABLE
from triton_llm.cli import main

MODELS = ["m-tokenizer", "m-generator", "m-detokenizer", "m-unary", "m"]


class ModelControl:
    """What Triton would hold: folders of its repository and their states, and the calls in order."""

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        self.states: dict[str, str] = {}
        self.calls: list[str] = []
        self.key = ""
        self.broken: set[str] = set()  # do not load
        self.why = "no memory"
        self.leaking: set[str] = set()  # stay UNLOADING
        self.secret = ""
        self.retired: dict[str, object] = {}  # generator -> its order
        self.url = ""

    def answer(self, path: str, key: str, body: bytes) -> tuple[int, object]:
        if path.startswith("/v2/models/"):
            return self._generate(path.removeprefix("/v2/models/").removesuffix("/generate"), json.loads(body))
        if self.key and key != self.key:
            return 403, {"error": "This API is restricted, expecting header 'triton-llm-admin-key'"}
        if path == "/v2/repository/index":
            folders = {folder.name: "" for folder in self.repository.glob("*")}
            return 200, [{"name": n, **({"state": s} if s else {})} for n, s in (folders | self.states).items()]
        model, action = path.removeprefix("/v2/repository/models/").split("/")
        self.calls.append(f"{action} {model}")
        if action == "unload":
            self.states[model] = "UNLOADING" if model in self.leaking else "UNAVAILABLE"
            return 200, {}
        if not (self.repository / model).is_dir():
            return 500, {"error": f"failed to load '{model}', failed to poll from model repository"}
        if model in self.broken:
            return 400, {"error": f"load failed for model '{model}': {self.why}"}
        self.states[model] = "READY"
        return 200, {}

    def _generate(self, model: str, inputs: dict[str, str]) -> tuple[int, object]:
        """A generator, to which control requests come."""
        order = json.loads(inputs["control"])
        self.calls.append(f"{order['operation']} {model}")
        if self.states.get(model) != "READY":
            return 400, {"error": f"Request for unknown model: '{model}' is not found"}
        if order.pop("secret") != self.secret:
            return 400, {"error": "[INVALID_ARG control_refused] control: wrong secret; only the launcher may send it."}
        self.retired[model] = order
        return 200, {"text_output": "{}"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return tmp_path / "model_repository"


@pytest.fixture
def triton(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelControl]:
    monkeypatch.delenv(ADMIN_KEY_VARIABLE, raising=False)
    control = ModelControl(repository)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            status, body = control.answer(self.path, self.headers.get(ADMIN_KEY_HEADER, ""), data)
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        control.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield control
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def artifact(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_echo_artifact(tmp_path_factory.mktemp("artifact") / "echo", tiny)


def repo(*arguments: object) -> int:
    return main(["repo", *map(str, arguments)])


def test_add_loads_steps_first_and_remove_unloads_the_ensemble_first(
    triton: ModelControl, repository: Path, artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--repository", repository, "--url", triton.url)
    assert repo("add", "m", "--artifact", artifact, *where) == 0
    assert triton.calls == [f"load {model}" for model in MODELS]
    assert "loaded at" in capsys.readouterr().out
    assert repo("list", *where, "--json") == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["states"] == dict.fromkeys(MODELS, "READY")
    assert (entry["artifact"], entry["present"]) == (str(artifact), True)
    triton.calls.clear()
    assert repo("remove", "m", *where, "--json") == 0
    assert triton.calls == [f"unload {model}" for model in reversed(MODELS)]
    assert json.loads(capsys.readouterr().out)["unloaded"] == triton.url
    assert list(repository.iterdir()) == []


def test_list_says_the_states_in_words(
    triton: ModelControl, repository: Path, artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--repository", repository, "--url", triton.url)
    assert repo("add", "m", "--artifact", artifact, "--repository", repository) == 0
    capsys.readouterr()
    assert repo("list", *where) == 0
    assert capsys.readouterr().out == f"m  {artifact}  not loaded\n"
    triton.states["m-generator"] = "UNLOADING"
    assert repo("list", *where) == 0
    assert "m-tokenizer: not loaded, m-generator: UNLOADING" in capsys.readouterr().out


def test_a_model_that_does_not_load_takes_its_steps_with_it(
    triton: ModelControl, repository: Path, artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    triton.broken = {"m-detokenizer"}
    assert repo("add", "m", "--artifact", artifact, "--repository", repository, "--url", triton.url) == 1
    assert triton.calls[-2:] == ["unload m-generator", "unload m-tokenizer"]
    assert "load of 'm-detokenizer'" in (said := capsys.readouterr().err)
    assert "no memory" in said
    assert f"The entry stays in '{repository}'" in said
    assert "'triton-llm repo remove m'" in said
    assert (repository / "m").is_dir()  # as without --url: the entry is right, the server is not


_TRITONS_WORDS = (
    "version 1 is at UNAVAILABLE state: Internal: TritonModelException: m-generator: kv_cache_bytes 1000: one block "
    "takes 9216 bytes and 1000 are there; raise it.\n\nAt:\n  /opt/a/model.py(33): initialize\n;\n"
)


@pytest.mark.parametrize(("knobs", "code"), [(["--set", "kv_cache_bytes=1000"], 2), ([], 1)])
def test_an_entry_at_fault_is_said_in_one_line_without_our_files(
    triton: ModelControl,
    repository: Path,
    artifact: Path,
    capsys: pytest.CaptureFixture[str],
    knobs: list[str],
    code: int,
) -> None:
    triton.broken, triton.why = {"m-generator"}, _TRITONS_WORDS
    where = ("--repository", repository, "--url", triton.url)
    assert repo("add", "m", "--artifact", artifact, *where, *knobs) == code  # 2: the value is one that the entry sets
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "raise it. The entry stays in" in said
    assert "'triton-llm repo add m --set KNOB=VALUE'" in said
    assert not any(part in said for part in (".py", "At:", "initialize"))


def test_what_was_ready_before_a_failed_load_stays(triton: ModelControl, repository: Path) -> None:
    for model in MODELS[:2]:
        (repository / model).mkdir(parents=True)
    triton.states["m-tokenizer"] = "READY"
    triton.broken = {"m-generator"}
    with pytest.raises(LiveFailure):
        LiveServer(triton.url).load(MODELS[:2], 10.0)
    assert triton.states["m-tokenizer"] == "READY"


def test_an_unload_that_hangs_is_named_and_its_folders_are_kept(
    triton: ModelControl, repository: Path, artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--repository", repository, "--url", triton.url)
    assert repo("add", "m", "--artifact", artifact, *where) == 0
    triton.leaking = {"m-generator"}
    assert repo("remove", "m", *where, "--wait-seconds", "0.2") == 1
    assert "m-generator is UNLOADING" in (said := capsys.readouterr().err)
    for part in ("its folders are kept", "greater --wait-seconds", "without --url", "restart the server"):
        assert part in said
    assert {folder.name for folder in repository.iterdir()} == set(MODELS)
    triton.leaking, triton.states["m-generator"] = set(), "UNAVAILABLE"  # the requests came to their end
    assert repo("remove", "m", *where) == 0
    assert list(repository.iterdir()) == []


@pytest.fixture
def loaded(triton: ModelControl, repository: Path, artifact: Path, tmp_path: Path) -> tuple[object, ...]:
    """Where ``m`` is ready and its launcher has a run folder: the options of commands."""
    where = ("--repository", repository, "--url", triton.url)
    assert repo("add", "m", "--artifact", artifact, *where) == 0
    triton.calls.clear()
    triton.secret = "s3cret"
    ControlAccess(triton.url, triton.secret).write(tmp_path)
    return (*where, "--run-dir", tmp_path)


def test_the_engine_retires_before_its_model_is_unloaded(
    triton: ModelControl, loaded: tuple[object, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert repo("remove", "m", *loaded, "--wait-seconds", "7", "--json") == 0
    assert triton.calls == ["retire m-generator", *(f"unload {model}" for model in reversed(MODELS))]
    assert triton.retired == {"m-generator": {"operation": "retire", "grace_seconds": 7.0, "wait": False}}
    assert json.loads(capsys.readouterr().out)["retired"]


def test_a_retired_engine_is_said_where_its_model_stays(
    triton: ModelControl,
    loaded: tuple[object, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("build_engines.repo_cli.CUT_SECONDS", 0.0)
    triton.leaking = {"m-generator"}
    assert repo("remove", "m", *loaded, "--wait-seconds", "0.1") == 1
    said = capsys.readouterr().err
    for part in ("m-generator is UNLOADING", "its memory is free", "Triton lost count", "restart the server"):
        assert part in said
    triton.retired.clear()
    assert repo("remove", "m", *loaded, "--wait-seconds", "0") == 1
    assert triton.retired == {}  # it cannot be reached any more, and was told


@pytest.mark.parametrize(
    ("address", "secret", "why"),
    [
        ("http://127.0.0.1:9", "s3cret", "it is that of http://127.0.0.1:9, not of http"),
        ("", "last start's", "[INVALID_ARG control_refused]"),
        ("", "", "no way to the server's engines is there (No such file or directory); name the run folder"),
    ],
)
def test_where_it_cannot_be_told_it_is_unloaded_plainly_and_that_is_said(
    triton: ModelControl,
    loaded: tuple[object, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    address: str,
    secret: str,
    why: str,
) -> None:
    ControlAccess(address or triton.url, secret).write(tmp_path)
    if not secret:
        (tmp_path / FILE).unlink()
    assert repo("remove", "m", *loaded) == 0
    said = capsys.readouterr().out
    assert "its engine was not retired: " in said
    assert why in said
    assert "s3cret" not in said
    assert triton.retired == {}
    assert [call for call in triton.calls if call.startswith("unload")] == [f"unload {m}" for m in reversed(MODELS)]


def test_a_server_of_another_repository_is_told_apart(
    triton: ModelControl, tmp_path: Path, artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert repo("add", "m", "--artifact", artifact, "--repository", tmp_path / "other", "--url", triton.url) == 1
    assert "another model repository" in capsys.readouterr().err


def test_the_administrative_key_is_sent_and_asked_for(
    triton: ModelControl, repository: Path, artifact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    triton.key = "sesame"
    command = ("add", "m", "--artifact", artifact, "--repository", repository, "--url", triton.url)
    assert repo(*command) == 2
    assert "--admin-key-file" in capsys.readouterr().err
    (tmp_path / "admin.key").write_text("sesame\n")
    assert repo(*command, "--admin-key-file", tmp_path / "admin.key") == 0
    assert repo(*command, "--admin-key-file", tmp_path / "none") == 2
    assert "No such file" in capsys.readouterr().err


def test_the_key_may_come_from_the_environment(triton: ModelControl, monkeypatch: pytest.MonkeyPatch) -> None:
    triton.key = "sesame"
    monkeypatch.setenv(ADMIN_KEY_VARIABLE, "sesame")
    assert repo("list", "--repository", triton.repository, "--url", triton.url) == 0


def test_nobody_there_adds_nothing(repository: Path, artifact: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("add", "m", "--artifact", artifact, "--repository", repository, "--url", "http://127.0.0.1:9")
    assert repo(*command) == 1
    assert "triton-llm serve" in capsys.readouterr().err
    assert not repository.exists()


_GRPC_SETTINGS = b"\x00\x00\x18\x04\x00\x00\x00\x00\x00\x00\x04\x00\x3f\xff\xff\x00\x05\x00\x3f\xff\xff"


@pytest.mark.parametrize(
    "answer",
    [_GRPC_SETTINGS, b"HTTP/1.1 200 OK\r\n\r\n<html>", b"HTTP/1.1 200 OK\r\n\r\n{}x", b"HTTP/1.1 200 OK\r\n\r\n\xff"],
)
def test_a_port_that_is_not_tritons_http_port_is_one_clear_error(
    answer: bytes, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(answer)

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        assert repo("list", "--repository", repository, "--url", f"http://127.0.0.1:{server.server_address[1]}") == 2
        thread.join()
    said = capsys.readouterr().err
    assert "give the HTTP port, 8000" in said
    assert said.strip().isprintable()


def test_nobody_there_removes_nothing(repository: Path, artifact: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert repo("add", "m", "--artifact", artifact, "--repository", repository) == 0
    assert repo("remove", "m", "--repository", repository, "--url", "http://127.0.0.1:9") == 1
    assert "triton-llm serve" in capsys.readouterr().err
    assert len(list(repository.iterdir())) == len(MODELS)


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "http://", "http://host:port", "http://host:99999", "ftp://a"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(CallerMistake, match=r"it must be http://host:port, Triton's HTTP address"):
        LiveServer(url)


def test_removing_without_a_server_says_that_one_goes_on(
    repository: Path, artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert repo("add", "m", "--artifact", artifact, "--repository", repository) == 0
    capsys.readouterr()
    assert repo("remove", "m", "--repository", repository) == 0
    said = capsys.readouterr().out
    assert all(part in said for part in ("removed", "if a server serves it, it goes on", "--url unloads it"))


@pytest.mark.parametrize("seconds", ["-1", "nan"])
def test_a_wait_that_is_none_is_refused(repository: Path, seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert repo("remove", "m", "--repository", repository, "--wait-seconds", seconds) == 2
    assert f"--wait-seconds {seconds}: it must be 0 or more" in capsys.readouterr().err
