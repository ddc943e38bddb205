"""A checkpoint that is code: refused unless asked, its code not even imported; asked, built, measured and run."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from build_engines import hub
from build_engines.build import BuildResult, build, make_plan
from build_engines.errors import CheckpointError
from build_engines.spec import EngineSpec
from collector import Collector
from python_llm.artifact import Artifact
from python_llm.engine import GenerateRequest, SamplingParams, load
from python_llm.engines.paged.runners.openvino import OpenVinoRunner
from remote_code_checkpoint import MARKER, make_remote_code_checkpoint
from tests.unit.build_engines.architectures import EXACT, paged_logits
from tests.unit.build_engines.hub_server import serve_hub
from triton_llm.cli import main

CODE = {"configuration_halved.py", "modeling_halved.py"}


def _spec(folder: Path, **knobs: Any) -> EngineSpec:
    return EngineSpec(**{"model": str(folder), "name": "model", "quant": "none", "check_quality": False, **knobs})


def _refusal(folder: Path, engines: Path, **knobs: Any) -> str:
    with pytest.raises(CheckpointError) as caught:
        build(_spec(folder, **knobs), engines)
    assert "\n" not in str(caught.value)
    assert not [path for path in engines.glob("*") if path.is_dir()]
    return str(caught.value)


def _edit(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.fixture
def coded(tmp_path: Path) -> Path:
    return make_remote_code_checkpoint(tmp_path / "coded")


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BuildResult]:
    """The checkpoint and its artifact, its quality measured with its own code as the source."""
    folder = make_remote_code_checkpoint(tmp_path_factory.mktemp("trusted") / "coded")
    spec = _spec(folder, trust_remote_code=True, check_quality=True, allow_quality_loss=True)
    return folder, build(spec, folder.parent / "engines")


def test_unasked_it_is_refused_and_none_of_its_code_is_run(coded: Path, engines: Path) -> None:
    text = _refusal(coded, engines)
    for part in (str(coded), "'halved_llama'", "auto_map", "--trust-remote-code (TRUST_REMOTE_CODE=1)", "conversion"):
        assert part in text
    assert not (coded / MARKER).exists()


def test_asked_a_plan_runs_nothing_yet(coded: Path, engines: Path) -> None:
    assert make_plan(_spec(coded, trust_remote_code=True), engines).action == "build"
    assert not (coded / MARKER).exists()


def test_asked_its_own_code_is_what_is_built(trusted: tuple[Path, BuildResult]) -> None:
    import torch
    from transformers import AutoModelForCausalLM, LlamaForCausalLM

    folder, result = trusted
    assert (folder / MARKER).read_text() == "imported"
    prompts = [np.random.default_rng(0).integers(3, 512, length) for length in (50, 9)]
    runner = OpenVinoRunner(result.path / "openvino_model.xml", EXACT)
    found = paged_logits(runner, prompts, 20)
    own = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
    plain = LlamaForCausalLM.from_pretrained(folder)
    for prompt, rows in zip(prompts, found, strict=True):
        with torch.no_grad():
            expected, other = (m(torch.from_numpy(prompt)[None]).logits[0].numpy() for m in (own, plain))
        assert np.abs(rows - expected).max() <= 1e-3 * np.abs(expected).max()
        assert np.abs(rows - other).max() > 0.1 * np.abs(other).max()  # a Llama of the same weights is another model


def test_the_engine_serves_it(trusted: tuple[Path, BuildResult]) -> None:
    """Greedily, in fp32: the tokens that transformers gives with the checkpoint's own code."""
    import torch
    from transformers import AutoModelForCausalLM

    folder, result = trusted
    prompt, sink = tuple(range(3, 40)), Collector()
    request = GenerateRequest("a", prompt, 16, sampling=SamplingParams(temperature=0.0))
    with closing(load(result.path, EXACT)) as engine:
        engine.submit(request, sink)
        sink.wait()
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
    asked: dict[str, Any] = {"max_new_tokens": 16, "min_new_tokens": 16, "do_sample": False, "eos_token_id": None}
    expected = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)), **asked)
    assert sink.streams[0] == expected[0, len(prompt) :].tolist()


def test_the_artifact_says_which_code_was_trusted(trusted: tuple[Path, BuildResult]) -> None:
    _, result = trusted
    manifest = Artifact.open(result.path, verify=True).manifest
    assert set(manifest.source.files) == {"model.safetensors", *CODE}
    assert manifest.model.architecture == "HalvedForCausalLM"
    assert manifest.quality is not None
    assert manifest.quality["measured"]["kl"] < 0.005
    assert not list(result.path.rglob("*.py"))  # serving needs none of it


def test_the_flag_and_the_code_are_in_the_content_key(coded: Path, tiny: Path, engines: Path) -> None:
    keys = {make_plan(_spec(tiny, trust_remote_code=trust), engines).key for trust in (False, True)}
    assert len(keys) == 2
    before = make_plan(_spec(coded, trust_remote_code=True), engines).key
    with (coded / "modeling_halved.py").open("a") as stream:
        stream.write("# edited\n")
    assert make_plan(_spec(coded, trust_remote_code=True), engines).key != before


def test_the_command_takes_the_flag(coded: Path, engines: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["build", str(coded), "--quant", "none", "--engines", str(engines), "--dry-run"]
    assert main(command) == 2
    assert "--trust-remote-code" in capsys.readouterr().err
    assert main([*command, "--trust-remote-code"]) == 0
    assert "would build" in capsys.readouterr().out


def test_an_architecture_of_no_known_family_is_refused_by_name(tmp_path: Path, engines: Path) -> None:
    folder = make_remote_code_checkpoint(tmp_path / "coded", derived=False)
    text = _refusal(folder, engines, trust_remote_code=True)
    assert "architecture 'halved_llama' cannot be compiled to an OpenVINO text generator" in text


def test_code_that_breaks_is_the_checkpoints_error(coded: Path, engines: Path) -> None:
    (coded / "modeling_halved.py").write_text("raise LookupError('no such\\n driver')\n")
    text = _refusal(coded, engines, trust_remote_code=True)
    assert "with its own code (--trust-remote-code) the build fails (LookupError: no such driver)" in text


def test_code_that_wants_a_package_says_which(coded: Path, engines: Path) -> None:
    file = coded / "modeling_halved.py"
    file.write_text("import a_package_nobody_has\n" + file.read_text())
    text = _refusal(coded, engines, trust_remote_code=True)
    assert all(part in text for part in ("ImportError", "a_package_nobody_has", "install what it asks for"))


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("other/model--modeling_halved.HalvedForCausalLM", ["'other/model--", "another repository", "copy them there"]),
        ("modeling_gone.HalvedForCausalLM", ["'modeling_gone.HalvedForCausalLM'", "no modeling_gone.py", "fetch"]),
    ],
)
def test_code_that_is_not_in_the_folder_is_refused(
    coded: Path, engines: Path, reference: str, parts: list[str]
) -> None:
    _edit(coded / "config.json", auto_map={"AutoModelForCausalLM": reference})
    text = _refusal(coded, engines, trust_remote_code=True)
    assert all(part in text for part in [str(coded), *parts])


def test_a_model_that_generates_no_text_is_refused(coded: Path, engines: Path) -> None:
    _edit(coded / "config.json", auto_map={"AutoConfig": "configuration_halved.HalvedConfig"})
    assert "names no AutoModelForCausalLM" in _refusal(coded, engines, trust_remote_code=True)


TOKENIZER = """
from pathlib import Path

from transformers import {base}

Path({marker!r}).write_text("imported")


class OwnTokenizer({base}):
    pass
"""


def _tokenizer_is_code(folder: Path, base: str) -> None:
    record = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(record["vocab"]))
    merges = "\n".join(" ".join(pair) for pair in record["merges"])
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    (folder / "own_tokenizer.py").write_text(TOKENIZER.format(base=base, marker=str(folder / MARKER)))
    fast = base.endswith("Fast")
    reference = [None, "own_tokenizer.OwnTokenizer"] if fast else ["own_tokenizer.OwnTokenizer", None]
    _edit(folder / "tokenizer_config.json", tokenizer_class="OwnTokenizer", auto_map={"AutoTokenizer": reference})


def test_a_tokenizer_that_is_code(folder: Path, copy_engine: Path, engines: Path) -> None:
    _tokenizer_is_code(folder, "GPT2TokenizerFast")
    assert "its tokenizer is code" in _refusal(folder, engines, engine="copy")
    assert not (folder / MARKER).exists()
    result = build(_spec(folder, engine="copy", trust_remote_code=True), engines)
    assert (folder / MARKER).exists()
    assert (result.path / "tokenizer.json").is_file()
    assert "own_tokenizer.py" in result.manifest.source.files


def test_a_tokenizer_that_is_code_and_slow_is_refused(folder: Path, copy_engine: Path, engines: Path) -> None:
    _tokenizer_is_code(folder, "GPT2Tokenizer")
    text = _refusal(folder, engines, engine="copy", trust_remote_code=True)
    assert "OwnTokenizer has no fast form" in text


def test_code_is_fetched_only_when_it_is_trusted(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
    files = {file.name: file.read_bytes() for file in tiny.iterdir()} | {"modeling_x.py": b"code"}
    with serve_hub(files) as server:
        assert not list(hub.fetch("owner/model", "", offline=False, endpoint=server.url).glob("*.py"))
        folder = hub.fetch("owner/model", "", offline=False, code=True, endpoint=server.url)
    assert [file.name for file in folder.glob("*.py")] == ["modeling_x.py"]
