"""Names that clients of other backends send: for rows of ours, or refused by name when set to something."""

from __future__ import annotations

from python_llm.tensors import Dtype, Tensor

__all__ = ["FOREIGN", "FOREIGN_OUTPUTS"]

_EARLIER = "NVIDIA's ensemble up to 0.19"
_ENGINE = "NVIDIA's tensorrt_llm model"
_LLMAPI = "NVIDIA's llmapi model"


def _alias(name: str, dtype: Dtype, of: str, whose: str, dims: tuple[int, ...] = (1,)) -> Tensor:
    return Tensor(name, dtype, dims, f"{of}, as {whose} calls it.", alias_of=of)


def _refused(name: str, dtype: Dtype, dims: tuple[int, ...], why: str) -> Tensor:
    return Tensor(name, dtype, dims, "Refused when set to something.", refused=why)


_ALIASES = (
    _alias("random_seed", "UINT64", "seed", _EARLIER),
    _alias("min_length", "INT32", "min_tokens", _EARLIER),
    _alias("request_output_len", "INT32", "max_tokens", _ENGINE),
    _alias("streaming", "BOOL", "stream", f"{_ENGINE} and llmapi"),
    _alias("runtime_top_k", "INT32", "top_k", _ENGINE),
    _alias("runtime_top_p", "FP32", "top_p", _ENGINE),
    _alias("len_penalty", "FP32", "length_penalty", _ENGINE),
    _alias("sampling_param_max_tokens", "INT32", "max_tokens", _LLMAPI),
    _alias("sampling_param_temperature", "FP32", "temperature", _LLMAPI),
    _alias("sampling_param_top_k", "INT32", "top_k", _LLMAPI),
    _alias("sampling_param_top_p", "FP32", "top_p", _LLMAPI),
    _alias("sampling_param_seed", "UINT64", "seed", _LLMAPI),
    _alias("sampling_param_presence_penalty", "FP32", "presence_penalty", _LLMAPI),
    _alias("sampling_param_frequency_penalty", "FP32", "frequency_penalty", _LLMAPI),
    _alias("sampling_param_beam_width", "INT32", "beam_width", _LLMAPI),
    _alias("sampling_param_stop", "BYTES", "stop_words", _LLMAPI, dims=(-1,)),
    _alias("lora_id", "UINT64", "lora_task_id", _LLMAPI),
    _alias("sampling_param_exclude_input_from_output", "BOOL", "exclude_input_in_output", _LLMAPI),
    _alias("sampling_param_return_perf_metrics", "BOOL", "return_perf_metrics", _LLMAPI),
)

_TEXT_ALONE = "this model reads text alone; leave it out"
_OWN_ADAPTERS = "adapters are read by the server, from the folders of its lora_config; name one with lora_name"
_NO_LOGITS = "this server gives no logits; for log-probs send return_log_probs or return_prompt_log_probs"
_NO_PROMPT_TABLE = "there is no prompt tuning; send the prompt as text, ids or messages"
_OWN_SPECULATION = "drafts are the server's own affair; leave it out"

_REFUSED = (
    _refused("decoder_text_input", "BYTES", (1,), "the model has no encoder; send the whole prompt as text_input"),
    _refused("return_context_logits", "BOOL", (1,), _NO_LOGITS),
    _refused("return_generation_logits", "BOOL", (1,), _NO_LOGITS),
    _refused("prompt_embedding_table", "FP16", (-1, -1), _NO_PROMPT_TABLE),
    _refused("prompt_table_extra_id", "UINT64", (1,), _NO_PROMPT_TABLE),
    _refused("prompt_vocab_size", "INT32", (1,), _NO_PROMPT_TABLE),
    _refused("embedding_bias_words", "BYTES", (-1,), "words of several tokens have no one logit; send logit_bias"),
    _refused("embedding_bias_weights", "FP32", (-1,), "words of several tokens have no one logit; send logit_bias"),
    _refused("lora_weights", "FP16", (-1, -1), _OWN_ADAPTERS),
    _refused("lora_config", "INT32", (-1, 3), _OWN_ADAPTERS),
    _refused("lora_path", "BYTES", (1,), _OWN_ADAPTERS),
    _refused("lora_ckpt_source", "BYTES", (1,), _OWN_ADAPTERS),
    _refused("num_draft_tokens", "INT32", (1,), _OWN_SPECULATION),
    _refused("use_draft_logits", "BOOL", (1,), _OWN_SPECULATION),
    _refused("sampling_param_logits_post_processor_name", "BYTES", (1,), "there are no post-processors; use a guide"),
    Tensor(
        "sampling_param_best_of",
        "INT32",
        (1,),
        "Refused above 1.",
        refused="nothing is chosen among several; send num_return_sequences",
        neutral=1,
    ),
    _refused("image_input", "FP16", (-1, 3, -1, -1), _TEXT_ALONE),
    _refused("image_bytes_input", "UINT8", (-1, -1, -1, -1), _TEXT_ALONE),
    _refused("image_url_input", "BYTES", (1,), _TEXT_ALONE),
    _refused("video_bytes_input", "UINT8", (-1, -1, -1, -1), _TEXT_ALONE),
    _refused("image_url", "BYTES", (1,), _TEXT_ALONE),
    _refused("image", "BYTES", (-1,), _TEXT_ALONE),
    _refused("embedding_request", "BYTES", (1,), "this model generates text; serve an embedding model for it"),
)

FOREIGN = (*_ALIASES, *_REFUSED)

# Outputs that are not declared: Triton itself refuses a request that names one.
FOREIGN_OUTPUTS = (
    _refused("context_logits", "FP32", (-1, -1), _NO_LOGITS),
    _refused("generation_logits", "FP32", (-1, -1, -1), _NO_LOGITS),
)
