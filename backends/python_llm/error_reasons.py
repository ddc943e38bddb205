"""The reasons that an error of ours may have: metrics count errors by these, and any other as ``other``.

A test compares the table with the source.
"""

from __future__ import annotations

from python_llm.contract import GENERATOR
from python_llm.errors import ServeError

__all__ = ["OF_AN_INPUT", "OTHER", "REASONS", "labels_of"]

OTHER = "other"

_REASONS = """
    after_unload_waits beams_do_not_sample beams_do_not_stream beams_take_no_guide beams_too_large control_not_json
    control_refused deadline_exceeded draining duplicate_request_id empty_prompt engine_closed engine_failed
    engine_not_started engines_not_supported flag_not_boolean given_twice grace_out_of_range guide_missing
    guide_not_json guide_not_valid guide_too_complex guide_too_large guide_too_slow guide_trial_failed
    guide_without_type id_out_of_vocabulary internal invalid_utf8 library_missing limit_out_of_range
    log_probs_missing logit_bias_not_json logit_bias_out_of_range logits_not_finite mask_not_valid
    max_tokens_too_large max_tokens_too_small memory_pressure messages_not_json messages_not_valid needs_beams
    needs_log_probs no_answer no_chat_template no_engine not_loaded not_supported nothing_allowed nothing_to_resume
    one_prompt outputs_and_cache prompt_too_long queue_full refused_by_library refused_by_triton request_failed
    request_id_missing request_too_long resume_breaks_guide resume_one_sequence sampling_parameters_not_json
    shared_memory_full template_refused too_many_logit_bias too_many_sequences too_many_stop_token_ids
    top_k_out_of_range two_adapters unknown_adapter unknown_guide_type unknown_input unknown_operation
    unknown_parameter unknown_request unknown_sampling_parameter unreachable wrong_length wrong_shape wrong_type
"""
REASONS = frozenset(_REASONS.split())
# Reasons that begin or end with an input's name.
OF_AN_INPUT = ("{input}_out_of_range", "{input}_too_long", "too_many_{input}")

_SINGULAR = {"bad_words": "bad_word", "stop_words": "stop_word"}  # a word of them may be too long
_INPUTS = {row.name for row in GENERATOR.inputs} | set(_SINGULAR.values())
_KNOWN = REASONS | {pattern.format(input=name) for pattern in OF_AN_INPUT for name in _INPUTS}


def labels_of(error: ServeError) -> tuple[str, str]:
    """(code, reason) as a metric's labels: a bounded set."""
    return error.code, error.reason if error.reason in _KNOWN else OTHER
