"""
tries = "leaves sparse files that hold no data and together exceed the size that is collected"
wins = "a worker without memory, or a store without space"
guard = "the runner counts a file's size before it reads the file; files beyond the pool's bound are left out, and the outcome says so"
uncontrolled = "outside a sandbox, nothing collects artifacts"
aftermath = true
held.made = 2
[outcome.left_out]
"/workspace/artifacts/second" = "too_large"
[runsc]
skip = "without an inner wall, no files go in or out"
"""
for name in ("first", "second"):
    with open("/workspace/artifacts/" + name, "w") as file:
        file.truncate(40 << 20)
observe("made", 2)
