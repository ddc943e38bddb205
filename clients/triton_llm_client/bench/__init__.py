"""The paired bench: subjects take turns under the same load, and ratios are formed round by round.

``load`` is what a run is, ``subjects/`` who runs it, ``rounds`` the taking of turns, ``statistics`` and ``report``
what comes out. A new subject is one file in ``subjects/`` and one row in its table.
"""
