"""
tries = "maps the page at address 0, where the kernel's own null pointers lead"
wins = "data of its choice where a faulty kernel follows a null pointer"
guard = "mapping an address below `vm.mmap_min_addr` requires a capability, which the job lacks"
control = {}
held.null = { any = ["EPERM", "EACCES"] }
held.above = "worked"
open.null = "worked"
[runsc]
held = { null = { any = ["EPERM", "EACCES", "EINVAL", "worked"] } }
"""
FIXED = 0x32
call("mmap", 0, 4096, 3, FIXED, -1, 0, told="null")
call("mmap", 0x7E << 32, 4096, 3, FIXED, -1, 0, told="above")
