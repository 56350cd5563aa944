"""
tries = "asks for pid 1's list of robust futexes, which is an address in its memory"
wins = "where the runner's program is in memory"
guard = "pid 1 is not dumpable"
control = {}
held.asked = "EPERM"
held.own = "worked"
open.asked = "worked"
[runsc]
skip = "without an inner wall, pid 1 is the runner, which has the same user"
"""
room = ctypes.create_string_buffer(16)
call("get_robust_list", 1, room, ctypes.addressof(room) + 8, told="asked")
call("get_robust_list", 0, room, ctypes.addressof(room) + 8, told="own")
