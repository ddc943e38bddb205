"""What holds for all inputs: conventions of widely used clients, and what Triton decides before we see a request."""

from __future__ import annotations

__all__ = ["CONVENTIONS", "OF_TRITON"]

CONVENTIONS = (
    "`temperature` 0, `top_k` 1 or `top_p` 0 is greedy.",
    "Empty `stop_words` and `bad_words`, empty texts among them, and empty texts of other inputs are unset.",
    "In JSON inputs null, an empty text, an empty list and an empty object are unset; numbers may stand as texts, and "
    "whole numbers are taken for floats.",
    "An `end_id` of -1 or beyond the vocabulary means that no token ends the text; any other takes the place of all "
    "the checkpoint's end tokens. `stop_token_ids` hold beside it, and with `ignore_eos` too.",
    "`min_tokens` comes before every stop: end tokens, stop tokens and stop words.",
    "A stop word is searched in the text, across tokens and chunks; that which ends first wins, of those the longest.",
    "`accumulate_tokens` is accepted; a response of a stream carries new text alone.",
    "An input of another client's name and its own name may both be there when they say the same; else the request is "
    "refused. So is one that says a thing as tensor and differently in `sampling_parameters`.",
    "A value that changes nothing (a penalty that is off, `beam_width` 1, false) asks for nothing, and is taken by "
    "engines that lack the ability.",
    "Log-probs are of the model's own distribution: before temperature, penalties, bias, bad words and guide.",
    "A request that does not stream is answered once, with a value for each of its sequences; in a stream of several "
    "each response belongs to the sequence that its `sequence_index` says.",
    "`output_ids` never hold the prompt, whatever `exclude_input_in_output` says.",
)

OF_TRITON = (
    "The rank: NAME and NAME-generator take `[1,n]`, NAME-unary `[n]`; HTTP's generate routes hide the difference.",
    "The type of a tensor, and names that are no input: over gRPC and `/infer` both are refused with Triton's words.",
    "HTTP generate: a JSON null for an input is status 500, `[]` for an input that takes one value 400; a whole number "
    "that its type cannot hold wraps round without a word; FP16 inputs cannot be sent; every error of ours is "
    "status 400, and its text begins with `[CODE reason]`.",
    "HTTP generate: an object `parameters` is opened: keys that are inputs become inputs, others request parameters, "
    "which may be texts, numbers and flags. `stop` of NAME-generator is the flag that cancels: send `stop_words`.",
    "In the ensemble every output is in every response; what was not asked for, or is not known yet, is empty.",
)
