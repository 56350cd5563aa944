"""
tries = "leaves sparse files that hold nothing and are together larger than what is collected"
wins = "a worker without memory, or a store without room"
guard = "bytes are counted by a file's size before it is read; what is beyond the pool's bound is told and left out"
uncontrolled = "outside of a sandbox nobody collects artifacts"
aftermath = true
held.made = 2
[outcome.left_out]
"/workspace/artifacts/second" = "too_large"
[runsc]
skip = "without an inner wall no files go in or out"
"""
for name in ("first", "second"):
    with open("/workspace/artifacts/" + name, "w") as file:
        file.truncate(40 << 20)
observe("made", 2)
