"""
tries = "looks for what the container was made from: the old root, the runner's socket, the machine's folders"
wins = "files of the machine"
guard = "the view has only what an interpreter needs; the old root is unmounted; `/run` and the socket's folder are covered"
control = {}
held.secret = "ENOENT"
held.target_folder = "ENOENT"
held.old = "ENOENT"
held.sockets = 0
held.knock = "ENOENT"
held.home = []
open.secret = "worked"
open.target_folder = "worked"
# Debian's image has an empty /home of its own.
# The image has these entries itself. The runner's socket is removed once the runner has connected.
[runsc]
held.sockets = 4
"""
attempt("secret", opened, TARGET["file"])
attempt("target_folder", os.listdir, TARGET["folder"])
attempt("old", os.listdir, "/.old")
places = [place for place in ("/run", "/var/run", "/run/thermae") if os.path.isdir(place)]
observe("sockets", sum(len(os.listdir(place)) for place in places))
attempt("knock", socket.socket(socket.AF_UNIX).connect, "/run/thermae/sock")
observe("home", os.listdir("/home") if os.path.isdir("/home") else [])
