"""
tries = "searches everything that it sees for sockets and pipes, which work even behind a read-only mount"
wins = "contact with what is behind them: an engine, a database, an agent with keys"
guard = "of the machine, the sandbox shows only files and folders; everything else in it is its own"
slow = true
control = {}
held.found = []
held.seen = { min = 1000 }
open.found = { none = [[]] }
"""
found, seen, left = [], 0, [TARGET["folder"] if CONTROL else "/"]
while left:
    folder = left.pop()
    try:
        entries = list(os.scandir(folder))
    except OSError:
        continue
    for entry in entries:
        seen += 1
        if entry.is_symlink() or entry.is_file(follow_symlinks=False):
            continue
        if not entry.is_dir(follow_symlinks=False):
            if not entry.path.startswith("/dev/"):
                found.append(entry.path)
        elif entry.path != "/proc":
            left.append(entry.path)
observe("seen", seen)
observe("found", sorted(found)[:5])
