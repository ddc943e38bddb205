"""Several Triton servers as one: which is asked, what happens when one dies, drains or is full.

``PooledUpstream`` is the door. From the outside in: it opens a ``Survivor`` for each request; that asks the ``Pool``
for a ``Server``, reads a stream from it, and goes on with another where it breaks.
"""
