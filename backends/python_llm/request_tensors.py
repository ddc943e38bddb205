"""What a request may say: one row an input."""

# ruff: noqa: E501  (a table: one row a line)

from __future__ import annotations

from python_llm.tensors import Dtype, Tensor

__all__ = ["CONTROL", "INPUT_IDS", "MESSAGES", "ONLY_OF_THE_GENERATOR", "PROMPT", "REQUEST", "TEXT_INPUT"]


def _one(name: str, dtype: Dtype, meaning: str) -> Tensor:
    return Tensor(name, dtype, (1,), meaning)


def _many(name: str, dtype: Dtype, meaning: str) -> Tensor:
    return Tensor(name, dtype, (-1,), meaning)


TEXT_INPUT = _one("text_input", "BYTES", "The prompt as text; exactly one of text_input, input_ids, messages.")
INPUT_IDS = _many("input_ids", "INT32", "The prompt as token ids.")
MESSAGES = _one(
    "messages",
    "BYTES",
    "The prompt as a JSON list of chat messages, or an object with 'messages' and 'tools'; the checkpoint's own chat template is applied.",
)

PROMPT = (
    TEXT_INPUT,
    INPUT_IDS,
    _one(
        "input_lengths", "INT32", "The number of input_ids, as NVIDIA's tensorrt_llm model takes it; it must be true."
    ),
    MESSAGES,
    _many(
        "resume_ids",
        "INT32",
        "Tokens this request already produced elsewhere: they count for max_tokens, usage, penalties, stop words and random position, and are not sent again.",
    ),
    _one(
        "resume_index",
        "INT32",
        "Which sequence of a request of several the resumed one is; sequence_index reports it. Default 0.",
    ),
)

_LENGTH = (
    _one(
        "max_tokens",
        "INT32",
        "Most tokens to generate; absent: default_max_tokens, cut to the context. 0 with return_prompt_log_probs alone: the prompt is computed and nothing generated.",
    ),
    _one("min_tokens", "INT32", "End tokens, stop tokens and stop words are ignored before this many tokens."),
    _one("stream", "BOOL", "true: a response for each step's text; false (default): one response."),
    _one(
        "accumulate_tokens",
        "BOOL",
        "Accepted from clients of NVIDIA's BLS model; every response carries new text alone, whatever it says.",
    ),
)

_SAMPLING = (
    _one(
        "temperature",
        "FP32",
        "Divides the logits, 0 to 100; 0 is greedy. Absent: greedy unless top_k, top_p or min_p is given, then 1.",
    ),
    _one("top_k", "INT32", "Sample among the k likeliest tokens; 0 is off, 1 is greedy."),
    _one("top_p", "FP32", "Sample among the likeliest tokens that hold this mass; 1 is off, 0 is greedy."),
    _one("min_p", "FP32", "Drop tokens less likely than this share of the likeliest; 0 is off."),
    _one("seed", "UINT64", "Seed of the sampling noise; absent: a fresh one is drawn and told in seed_used."),
    _one(
        "repetition_penalty",
        "FP32",
        "Divides positive logits of tokens in prompt or output and multiplies negative ones; above 0, at most 100; 1 is off.",
    ),
    _one("presence_penalty", "FP32", "Subtracted from the logit of each token in the output; -2 to 2, 0 is off."),
    _one(
        "frequency_penalty",
        "FP32",
        "Subtracted from a token's logit for each time it is in the output; -2 to 2, 0 is off.",
    ),
    _one("no_repeat_ngram_size", "INT32", "No run of this many tokens appears twice in prompt and output; 0 is off."),
    _one("logit_bias", "BYTES", "A JSON object: token id -> number from -100 to 100 that is added to its logit."),
    _many("bad_words", "BYTES", "Texts that are not generated: their tokens, with and without a space before them."),
)

_SEQUENCES = (
    _one(
        "num_return_sequences",
        "INT32",
        "Sequences to make; with beams the best that many, absent all. Greedy ones are equal.",
    ),
    _one("beam_width", "INT32", "Beams of a beam search; 1 is off. Beams do not stream and do not sample."),
    _one("length_penalty", "FP32", "With beams: a beam's score is its log-prob / length ** this; 1 by default."),
    _one(
        "early_stopping",
        "INT32",
        "With beams: 1 ends the search as soon as beam_width beams are finished; 0 when none can be better.",
    ),
)

_STOPS = (
    _many("stop_words", "BYTES", "Texts that end generation where they appear; they are cut from the text."),
    _many("stop_token_ids", "INT32", "Tokens that end generation as an end token does; also with ignore_eos."),
    _one("include_stop_str_in_output", "BOOL", "true: a stop word that ended the text stays in it."),
    _one("end_id", "INT32", "The end token in place of the checkpoint's own; -1 or beyond the vocabulary: none."),
    _one("pad_id", "INT32", "Accepted; nothing is padded here."),
    _one("ignore_eos", "BOOL", "true: end tokens do not end generation."),
)

_ANSWER = (
    _one(
        "exclude_input_in_output",
        "BOOL",
        "false: the first text begins with the prompt's text, special tokens left out; absent: exclude_input_in_output of the serving knobs (true).",
    ),
    _one("return_log_probs", "BOOL", "true: output_log_probs and cum_log_probs are sent."),
    _one("top_log_probs", "INT32", "Alternatives to tell for each token whose log-prob is asked for, 0 to 20."),
    _one("return_prompt_log_probs", "BOOL", "true: prompt_log_probs is sent."),
    _one("return_finish_reason", "BOOL", "false: finish_reason is not sent."),
    _one("return_stop_reason", "BOOL", "true: stop_reason is sent."),
    _one("return_num_input_tokens", "BOOL", "false: num_input_tokens is not sent."),
    _one("return_num_output_tokens", "BOOL", "false: num_output_tokens is not sent."),
    _one("return_perf_metrics", "BOOL", "true: times, KV blocks and draft counts are sent."),
    _one("return_cumulative_logprob", "BOOL", "true: cumulative_logprob is sent, as vLLM's backend does."),
    _one("return_logprobs", "BOOL", "true: logprobs is sent, as vLLM's backend does."),
)

_GUIDE = (
    _one(
        "guided_decoding_guide_type",
        "BYTES",
        "json, json_schema, regex, ebnf_grammar or structural_tag: the output follows the guide.",
    ),
    _one("guided_decoding_guide", "BYTES", "The schema, expression, grammar or tags; type json needs none."),
)

_SCHEDULING = (
    _one("priority", "INT32", "Lower runs earlier, and waiting lowers it; default 0."),
    _one(
        "tenant",
        "BYTES",
        "Whose request this is, at most 256 characters; tenants share the engine by the tokens that each was served.",
    ),
    _one(
        "timeout",
        "UINT64",
        "Microseconds from arrival after which the request ends with finish_reason timeout; 0: none.",
    ),
    _one("cache_salt", "BYTES", "Only requests of the same salt share cached prompt blocks; at most 256 characters."),
)

_ADAPTER = (
    _one("lora_name", "BYTES", "The LoRA adapter to use, by the name of its folder; absent: the model alone."),
    _one(
        "lora_task_id",
        "UINT64",
        "The same by its number: 1 is the first adapter of the model's lora_config; 0 or absent: the model alone.",
    ),
)

_VLLM = (
    _one(
        "sampling_parameters",
        "BYTES",
        "vLLM's JSON object of sampling parameters; numbers may be texts. The table of its keys is below.",
    ),
)

CONTROL = (
    _one("stop", "BOOL", "true: cancel the running request that has this request's id; nothing else is read."),
    _one("control", "BYTES", "A control request of the launcher: JSON with 'operation' and 'secret'."),
    _one(
        "every_output",
        "BOOL",
        "true: every response has every output, as an ensemble needs; its text is then left to the detokenizer.",
    ),
)

REQUEST = (
    *PROMPT,
    *_LENGTH,
    *_SAMPLING,
    *_SEQUENCES,
    *_STOPS,
    *_ANSWER,
    *_GUIDE,
    *_SCHEDULING,
    *_ADAPTER,
    *_VLLM,
    *CONTROL,
)

# The ensemble's tokenizer makes the ids; stop and control go to the generator itself; vLLM's clients know no ensemble.
ONLY_OF_THE_GENERATOR = frozenset(
    {"input_ids", "input_lengths", "return_logprobs", "return_cumulative_logprob", *(row.name for row in CONTROL)}
)
