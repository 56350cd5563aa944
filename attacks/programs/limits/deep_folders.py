"""
tries = "makes ten thousand folders, each inside the one before, with names of 250 characters"
wins = "a clean-up that takes forever or crashes"
guard = "nothing is cleaned up: the kernel drops the storage with its namespace"
uncontrolled = "somebody would have to clean up the folders"
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
