"""
tries = "reads what the kernel keeps of each page of the machine's memory, and of what its own allocators and tasks do"
wins = "which pages are shared with whom; where the kernel's objects lie"
guard = "the files belong to the machine's root; what is in them belongs to no namespace, and no capability is there"
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
