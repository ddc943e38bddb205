"""A long text is tokenised beside everything else that the process does."""

from __future__ import annotations

import threading

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from python_llm.tokenizer import Tokenizer


def test_other_threads_run_while_a_long_text_is_tokenised() -> None:
    library = tokenizers.Tokenizer(models.BPE(vocab={"a": 0, "Ġ": 1, "aa": 2}, merges=[("a", "a")]))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    tokenizer = Tokenizer(library, None)
    text = "aaa a " * 50_000  # hundreds of milliseconds
    turns, ended = 0, threading.Event()
    begun = threading.Event()

    def count() -> None:
        nonlocal turns
        while not ended.wait(0.001):
            turns += 1
            begun.set()

    counting = threading.Thread(target=count)
    counting.start()
    try:
        begun.wait()
        before = turns
        ids = tokenizer.encode(text, special_tokens=False)
        during = turns - before
    finally:
        ended.set()
        counting.join()
    assert len(ids) == 5 * 50_000
    assert during > 30  # where the library holds the interpreter: one or two
