"""
tries = "leaves links among its artifacts: symbolic links to files of the container and the machine, to directories, to `/proc`, to descriptors and in a circle, and hard links"
wins = "a file of the container or the machine, handed to the client as an artifact"
guard = "the runner opens artifacts one name at a time below a directory's descriptor, and never through a link"
uncontrolled = "outside a sandbox, nothing collects artifacts"
held.made = 7
[outcome.artifacts]
"/workspace/artifacts/hard" = "plain"
"/workspace/artifacts/plain" = "plain"
[outcome.left_out]
"/workspace/artifacts/circle" = "link"
"/workspace/artifacts/descriptor" = "link"
"/workspace/artifacts/directory" = "link"
"/workspace/artifacts/environ" = "link"
"/workspace/artifacts/file" = "link"
"/workspace/artifacts/up" = "link"
[runsc]
skip = "without an inner wall, no files go in or out"
"""
here = "/workspace/artifacts/"
with open(here + "plain", "w") as file:
    file.write("plain")
os.link(here + "plain", here + "hard")
targets = {"file": "/etc/passwd", "directory": "/etc", "environ": "/proc/1/environ", "descriptor": "/proc/self/fd/1",
           "circle": "circle", "up": "../../../../etc/hostname"}
for name, target in targets.items():
    os.symlink(target, here + name)
observe("made", 1 + len(targets))
