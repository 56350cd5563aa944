"""
tries = "draws numpy's random numbers in two jobs that were forked from an interpreter with numpy loaded"
wins = "the next job's numbers"
guard = "a forked child seeds numpy's generator anew (or the standard library's, if the interpreter has no numpy)"
uncontrolled = "the machine's interpreter may lack numpy; `randomness/generators` has the control"
held."*" = { unlike = true }
"""
try:
    import numpy as source
except ImportError:
    import random as numpy_is_missing

    observe("global", numpy_is_missing.random())
else:
    observe("global", float(source.random.random()))
    observe("generator", float(source.random.default_rng().random()))
# --- the same job again
