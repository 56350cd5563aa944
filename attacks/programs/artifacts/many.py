"""
tries = "leaves thousands of empty files, and directories nested hundreds deep"
wins = "a runner and a worker kept busy, and an outcome of unlimited size"
guard = "the number of names and files and the depth are bounded; the outcome lists only some of the omitted files one by one"
uncontrolled = "outside a sandbox, nothing collects artifacts"
aftermath = true
held.made = "all"
[outcome]
bytes = 400000
[runsc]
skip = "without an inner wall, no files go in or out"
"""
here = "/workspace/artifacts/"
for n in range(3000):
    open(here + str(n), "w").close()
os.chdir(here)
for _ in range(300):
    os.mkdir("d")
    os.chdir("d")
os.chdir("/workspace")
observe("made", "all")
