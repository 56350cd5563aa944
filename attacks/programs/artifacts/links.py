"""
tries = "leaves links among its artifacts: to files of the container and the machine, to directories, to /proc, to descriptors, in circles, and hard ones"
wins = "a file of the container's or the machine's, handed to the client as an artifact"
guard = "artifacts are opened one name at a time below a directory's descriptor, and never through a link"
uncontrolled = "outside of a sandbox nobody collects artifacts"
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
skip = "without an inner wall no files go in or out"
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
