"""
tries = "makes ten thousand folders, each in the one before, and names as long as they may be"
wins = "a clean-up that takes for ever or falls over"
guard = "nothing is cleaned up: the kernel drops the storage with its namespace"
uncontrolled = "somebody would have to clean it up"
aftermath = true
held.depth = { min = 1000 }
"""
depth = 0
try:
    os.chdir("/tmp")
    for depth in range(10000):
        os.mkdir("x" * 250)
        os.chdir("x" * 250)
except OSError:
    pass
observe("depth", depth)
