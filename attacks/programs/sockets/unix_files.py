"""
tries = "connects to Unix sockets by path: one of this suite, Docker's, containerd's, the system bus's, the runner's"
wins = "root on the machine"
guard = "each sandbox has its own mount namespace, in which these files do not exist"
control = {}
held."*" = "ENOENT"
open.own = "worked"
"""
PLACES = {"own": TARGET["socket"], "docker": "/var/run/docker.sock", "containerd": "/run/containerd/containerd.sock", "dbus": "/run/dbus/system_bus_socket", "runner": "/run/thermae/sock"}
for name, path in PLACES.items():
    attempt(name, lambda: socket.socket(socket.AF_UNIX).connect(path))
