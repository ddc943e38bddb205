"""What could keep an engine for GPUs from running, found before anything starts, all of it at once.

facts.py   what is here: versions, GPUs                  probe.py finds it out (tests fake it)
wishes.py  what the model's entry asks of its engine
checks.py  artifact + facts + wishes → problems, each with its remedy
"""
