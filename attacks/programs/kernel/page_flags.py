"""
tries = "opens the kernel's files about each page of the machine's memory, about its allocators, and about what pid 1 does in the kernel"
wins = "which pages are shared with whom; where the kernel's objects are"
guard = "the files belong to the machine's root, their content belongs to no namespace, and the job has no capability"
control = {}
held."*" = { any = ["EACCES", "EPERM", "ENOENT"] }
open.flags = "worked"
open.counts = "worked"
"""
for name, path in {
    "flags": "kpageflags",
    "counts": "kpagecount",
    "groups": "kpagecgroup",
    "slabs": "slabinfo",
    "mappings": "vmallocinfo",
    "kinds": "pagetypeinfo",
    "stack": "1/stack",
    "call": "1/syscall",
}.items():
    attempt(name, opened, "/proc/" + path)
