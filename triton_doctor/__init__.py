"""``triton-llm doctor``: what is wrong with this machine or this set-up, why, and what to do next."""
