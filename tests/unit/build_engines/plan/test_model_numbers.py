from __future__ import annotations

from typing import Any

import pytest

from build_engines.errors import CheckpointError, SpecError
from build_engines.plan.model_numbers import ModelNumbers, read_numbers
from build_engines.plan.parts import active_parameters, layer_matrices, parameters, stage_layers
from tests.unit.build_engines.plan.models import PARAMETERS, config_of, model_of


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_the_published_ones(name: str) -> None:
    assert parameters(model_of(name)) == PARAMETERS[name]


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_those_of_transformers(name: str) -> None:
    """The same config.json as a model without storage: every parameter counted by another program."""
    assert _counted(config_of(name)) == PARAMETERS[name]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("qwen3", {"head_dim": 16, "tie_word_embeddings": True}),
        ("qwen3_moe", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48, "head_dim": 16}),
        ("gemma", {"head_dim": 16}),
        ("gemma2", {"head_dim": 16}),
        ("phi3", {"pad_token_id": 0}),
        ("mistral", {}),
        ("llama", {"attention_bias": True}),
    ],
)
def test_small_models_of_other_families_count_as_transformers_does(kind: str, options: dict[str, Any]) -> None:
    config = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4}
    config |= {"num_key_value_heads": 2, "vocab_size": 500, "max_position_embeddings": 128, **options}
    asked = {"model_type": kind, "tie_word_embeddings": False, **config}
    if kind.startswith("gemma"):
        del asked["tie_word_embeddings"]
    assert parameters(read_numbers(asked, kind)) == _counted(asked)


def test_gpt2_has_learned_positions() -> None:
    config = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "vocab_size": 500}
    assert parameters(read_numbers({**config, "n_inner": None}, "gpt2")) == _counted(config)


def _counted(config: dict[str, Any]) -> int:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    kind = config["model_type"]
    with torch.device("meta"):
        made = AutoConfig.for_model(kind, **{key: value for key, value in config.items() if key != "model_type"})
        model = AutoModelForCausalLM.from_config(made)  # type: ignore[no-untyped-call]
    model.tie_weights()
    return sum(weight.numel() for weight in model.parameters())


def test_a_token_uses_two_of_eight_experts() -> None:
    model = model_of("mixtral-8x7b")
    assert 12.5e9 < active_parameters(model) < 13e9
    assert {matrix.copies for matrix in layer_matrices(model)} == {1, 8}


def test_the_first_stages_take_the_rest() -> None:
    assert stage_layers(80, 3) == (27, 27, 26)
    assert stage_layers(4, 4) == (1, 1, 1, 1)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"model_type": "mamba"}, ["model_type 'mamba'", "llama", "--layers"]),
        ({"num_hidden_layers": None}, ["no num_hidden_layers", "mend it"]),
    ],
)
def test_what_cannot_be_planned_is_refused(change: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(CheckpointError) as caught:
        read_numbers({**config_of("llama-3.1-8b"), **change}, "here")
    assert all(part in str(caught.value) for part in ("here", *parts))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"layers": 0}, "layers 0"),
        ({"kv_heads": 3}, "kv_heads 3: it must divide the 8 heads"),
        ({"experts": 4, "experts_per_token": 5}, "experts_per_token 5"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(change: dict[str, int], part: str) -> None:
    sizes: dict[str, Any] = {"layers": 2, "hidden": 64, "heads": 8, "kv_heads": 8, "head_dim": 8, "intermediate": 64}
    with pytest.raises(SpecError, match=part):
        ModelNumbers(family="numbers", **(sizes | {"vocab": 100, "context": 64} | change))
