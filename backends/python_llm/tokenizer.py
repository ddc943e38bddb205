"""The checkpoint's tokenizer and chat template, read from an artifact's folder."""

from __future__ import annotations

from pathlib import Path

import tokenizers

from python_llm.chat_template import ChatTemplate
from python_llm.errors import CallerMistake
from python_llm.token_bytes import TokenBytes

__all__ = ["Tokenizer"]


class Tokenizer:
    """Text to ids, ids to bytes; thread-safe."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, template: ChatTemplate | None) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self.template = template
        self.token_bytes = TokenBytes(tokenizer)
        self.longest_token = self.token_bytes.longest()

    @staticmethod
    def load(folder: Path) -> Tokenizer:
        """Read tokenizer.json, and the chat template where there is one.

        Raises:
            CallerMistake: tokenizer.json is missing or unreadable, or its decoder is of no known kind.
        """
        file = folder / "tokenizer.json"
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises bare Exception
            raise CallerMistake(f"tokenizer '{file}': {error}; build the artifact again.") from error
        return Tokenizer(tokenizer, ChatTemplate.load(folder))

    def encode(self, text: str, *, special_tokens: bool) -> list[int]:
        """Ids of ``text``; ``special_tokens`` adds what the tokenizer puts around plain text (often a BOS)."""
        # As a batch of one: `encode` holds the interpreter, and with it every stream, until a long text is done.
        (encoding,) = self._tokenizer.encode_batch([text], add_special_tokens=special_tokens)
        ids: list[int] = encoding.ids
        return ids

    def fewest_tokens(self, text: str) -> int:
        """A lower bound of the number of tokens, without tokenising."""
        return len(text.encode()) // self.longest_token
