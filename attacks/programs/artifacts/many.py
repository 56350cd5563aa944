"""
tries = "leaves thousands of empty files, and directories nested hundreds deep"
wins = "a runner and a worker that are busy with them, and an outcome of any size"
guard = "names, files and depth are bounded; what is left out is told one by one only for a while"
uncontrolled = "outside of a sandbox nobody collects artifacts"
aftermath = true
held.made = "all"
[outcome]
bytes = 400000
[runsc]
skip = "without an inner wall no files go in or out"
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
