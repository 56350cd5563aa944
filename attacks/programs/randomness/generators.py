"""
tries = "draws random numbers in two jobs that were forked from one interpreter: `random`, `uuid`, `secrets`, `urandom`, `ssl`, `tempfile`"
wins = "the next job's tokens, keys and file names"
guard = "a forked child seeds anew the generators that keep a state; the others ask the kernel"
control = { mode = "fork" }
held."*" = { unlike = true }
open.random = { alike = true }
"""
import random
import secrets
import tempfile
import uuid

observe("random", random.random())
observe("own_generator", random.Random().random())
observe("uuid", str(uuid.uuid4()))
observe("secrets", secrets.token_hex(8))
observe("urandom", os.urandom(8).hex())
observe("tempfile", next(tempfile._get_candidate_names()))
try:
    import ssl

    observe("ssl", ssl.RAND_bytes(8).hex())
except ImportError:
    observe("ssl", os.urandom(8).hex())
# --- the same job again
