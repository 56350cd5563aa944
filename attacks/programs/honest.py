"""An honest job, which runs after attacks and must find no trace of them."""

observe("answer", sum(range(1000)))
observe("processes", sorted(name for name in os.listdir("/proc") if name.isdigit()))
places, own = ("/tmp", "/workspace", "/session", "/dev/shm"), {"/workspace/artifacts", "/session/artifacts", os.path.abspath(__file__)}
found = {os.path.join(at, name) for place in places for at, folders, names in os.walk(place) for name in folders + names}
observe("files", sorted(found - own))
