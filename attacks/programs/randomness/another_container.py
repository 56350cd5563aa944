"""
tries = "compares the hash seed and the memory layout with those of a job in another container"
wins = "hash collisions and addresses that hold for everybody's jobs"
guard = "each container's interpreter starts by itself (the jobs of one container do share both)"
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
