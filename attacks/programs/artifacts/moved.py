"""
tries = "moves the artifacts directory away, and puts a link to the machine's files in its place"
wins = "every file of that directory, handed to the client as artifacts"
guard = "the runner opens the directory itself below the sandbox's own storage, and never through a link"
uncontrolled = "outside a sandbox, nothing collects artifacts"
held.moved = true
[outcome.artifacts]
[outcome.left_out]
"/workspace/artifacts" = "link"
[runsc]
skip = "without an inner wall, no files go in or out"
"""
os.rename("/workspace/artifacts", "/workspace/elsewhere")
os.symlink("/etc", "/workspace/artifacts")
observe("moved", os.path.isdir("/workspace/artifacts"))
