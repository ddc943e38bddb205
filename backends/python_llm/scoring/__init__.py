"""Scoring: the logits of given texts, and what follows from them.

request.py  Triton's request → jobs        runner.py   the protocol, and which runner serves which artifact
batch.py    rows of unequal length → runs  runners/    one file each
reading.py  logits → log-probs             room.py     whether an answer fits into shared memory
"""
