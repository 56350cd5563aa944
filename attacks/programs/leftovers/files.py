"""
tries = "leaves files, a FIFO, a socket and a set-user-id program in every writable place, for the container's next job"
wins = "its own code in the next job; the next job's data for the one after it"
guard = "each sandbox has its own storage, which disappears with it"
control = {}
held.left = { min = 15 }
held.found = []
open.left = { min = 3 }
open.found = { none = [[]] }
"""
PLACES = [TARGET["folder"]] if CONTROL else ["/tmp", "/workspace", "/workspace/artifacts", "/session", "/dev/shm"]
left = 0
for place in PLACES:
    with open(place + "/left", "w") as file:
        file.write("#!/bin/sh\n")
    os.chmod(place + "/left", 0o4755)
    os.mkfifo(place + "/fifo")
    socket.socket(socket.AF_UNIX).bind(place + "/bound")
    left += 3
    if place != "/dev/shm":
        os.makedirs(place + "/folder/deep")
        left += 1
observe("left", left)
# --- the next job
PLACES = [TARGET["folder"]] if CONTROL else ["/tmp", "/workspace", "/workspace/artifacts", "/session", "/dev/shm"]
# Each sandbox has its own artifacts folder, and this program's file.
observe("found", sorted({name for place in PLACES for name in os.listdir(place)} - {"artifacts", "main.py", "main.sh"}))
