"""
tries = "keeps a secret in a megabyte of strings; the next job searches all of its own memory for it"
wins = "an earlier job's data, from a heap that both jobs were forked from"
guard = "a job's bytes never pass through a zygote: the runner owns the channels, and the child receives code and data after the fork"
control = { mode = "same" }
held.held = 20000
held.searched_mib = { min = 5 }
held.found = 0
open.found = { min = 1 }
"""
secret = "".join(reversed("-terces-ybdleh-eamreht"))
kept = [secret + str(number) for number in range(20000)]
if CONTROL:
    sys.modules["json"].kept = kept
observe("held", len(kept))
# --- the next job
needle = bytes(reversed(b"-terces-ybdleh-eamreht")) + b"7"
found = searched = 0
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in list(maps):
        span, rights = line.split()[:2]
        if rights[0] == "r" and "[v" not in line:
            first, last = (int(part, 16) for part in span.split("-"))
            try:
                memory.seek(first)
                text = memory.read(last - first)
            except (OSError, OverflowError, ValueError):
                continue
            searched += len(text)
            # Two digits more than the needle has, so that the search does not find the needle itself.
            found += text.count(needle + b"77")
observe("searched_mib", searched >> 20)
observe("found", found)
