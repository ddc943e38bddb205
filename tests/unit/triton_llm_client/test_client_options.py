"""The options of generate and chat, as the scripted Triton sees them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from triton_llm.cli import main

ROWS: list[tuple[list[str], dict[str, Any]]] = [
    (["--min-p", "0.5", "--top-k", "7"], {"min_p": 0.5, "top_k": 7}),
    (
        ["--min-tokens", "3", "--ignore-eos", "--include-stop"],
        {"min_tokens": 3, "ignore_eos": True, "include_stop_str_in_output": True},
    ),
    (["--repetition-penalty", "1.5", "--no-repeat-ngram", "2"], {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2}),
    (
        ["--presence-penalty", "-0.5", "--frequency-penalty", "0.5"],
        {"presence_penalty": -0.5, "frequency_penalty": 0.5},
    ),
    (["--bad-word", "a"], {"bad_words": "a"}),
    (["--stop-id", "5", "--stop-id", "6"], {"stop_token_ids": [5, 6]}),
    (["--logit-bias", "5=-100", "--logit-bias", "6=1.5"], {"logit_bias": '{"5": -100.0, "6": 1.5}'}),
    (["--priority", "-3", "--tenant", "t", "--cache-salt", "s"], {"priority": -3, "tenant": "t", "cache_salt": "s"}),
    (["--lora", "french"], {"lora_name": "french"}),
    (["--timeout", "1.5"], {"timeout": 1_500_000}),
    (["--json-object"], {"guided_decoding_guide_type": "json"}),
    (["--regex", "[a-c]+"], {"guided_decoding_guide_type": "regex", "guided_decoding_guide": "[a-c]+"}),
    (
        ["--json-schema", "FILE"],
        {"guided_decoding_guide_type": "json_schema", "guided_decoding_guide": '{"type": "null"}'},
    ),
    (["--n", "2"], {"num_return_sequences": 2}),
    (
        ["--beams", "2", "--length-penalty", "0.5", "--early-stopping"],
        {"beam_width": 2, "length_penalty": 0.5, "early_stopping": 1},
    ),
    (["--echo", "--resume-id", "5", "--resume-id", "6"], {"exclude_input_in_output": False, "resume_ids": [5, 6]}),
    (["--json", "--logprobs"], {"return_log_probs": True}),
    (["--json", "--logprobs", "3"], {"return_log_probs": True, "top_log_probs": 3}),
    (
        ["--json", "--prompt-logprobs", "--stop-reason", "--metrics"],
        {"return_prompt_log_probs": True, "return_stop_reason": True, "return_perf_metrics": True},
    ),
]


@pytest.mark.parametrize(("options", "inputs"), ROWS, ids=[" ".join(options) for options, _ in ROWS])
def test_each_option_is_an_input(triton: Any, tmp_path: Path, options: list[str], inputs: dict[str, Any]) -> None:
    (tmp_path / "file").write_text('{"type": "null"}', "utf-8")
    given = [str(tmp_path / "file") if option == "FILE" else option for option in options]
    assert main(["generate", *given, "--url", triton.grpc_url, "--", "words a"]) == 0
    sent = triton.requests[0]["inputs"]
    assert {name: value for name, value in sent.items() if name not in ("text_input", "stream")} == inputs


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--logprobs"], "--logprobs: only --json prints"),
        (["--metrics"], "--metrics: only --json prints"),
        (["--logit-bias", "5"], "--logit-bias '5': it must be ID=NUMBER"),
        (["--logit-bias", "5=x"], "--logit-bias '5=x'"),
        (["--timeout", "-1"], "--timeout -1"),
        (["--timeout", "nan"], "--timeout nan"),
        (["--json-schema", "/nowhere"], "--json-schema '/nowhere': No such file"),
        (["--json-schema", "/dev/null"], "it is empty"),
    ],
)
def test_mistakes_are_said_before_anything_is_sent(
    triton: Any, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert main(["generate", "--url", triton.grpc_url, *options, "--", "words a"]) == 2
    assert said in capsys.readouterr().err
    assert triton.requests == []


def test_one_guide_at_a_time(triton: Any) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["generate", "words a", "--url", triton.grpc_url, "--regex", "a", "--json-object"])
    assert caught.value.code == 2


def test_several_answers_are_printed_whole_by_index(triton: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "words a|b", "--n", "2", "--url", triton.grpc_url]) == 0
    assert capsys.readouterr().out == "[0] ab\n"  # the script makes one
    assert "stream" not in triton.requests[0]["inputs"]


def test_a_request_has_the_id_it_is_given_and_json_tells_it(triton: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "words a", "--request-id", "mine", "--json", "--url", triton.grpc_url]) == 0
    assert json.loads(capsys.readouterr().out)["request_id"] == triton.requests[0]["id"] == "mine"
