"""An honest job: runs after attacks, and must find nothing of them."""

observe("answer", sum(range(1000)))
observe("processes", sorted(name for name in os.listdir("/proc") if name.isdigit()))
observe("files", [os.listdir(place) for place in ("/tmp", "/workspace", "/dev/shm")])
