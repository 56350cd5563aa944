"""
tries = "compares its hash seed and memory layout with those of a job in another container"
wins = "hash collisions and addresses that hold for everybody's jobs"
guard = "each container starts an interpreter of its own (the jobs of one container share both)"
control = { mode = "fork" }
held.hash = { unlike = true }
held.layout = { unlike = true }
open.neighbour = "there"
"""
observe("hash", hash("canary"))
observe("layout", ctypes.cast(libc.getpid, ctypes.c_void_p).value)
if CONTROL:
    observe("neighbour", "there")
# --- the neighbour
observe("hash", hash("canary"))
observe("layout", ctypes.cast(libc.getpid, ctypes.c_void_p).value)
at_gate()
