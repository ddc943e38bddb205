"""The in-flight-batching engine over a paged KV cache. Read in this order:

sequence (one generation) · block_pool and prefix_cache (its memory) · scheduler (who runs next) ·
engine (the step) · sampler (the next token) · runner and runners/ (the model).
"""
