"""
tries = "makes every system call with a number from 424 to 500, with arguments that do nothing"
wins = "a call that the kernel got after the filter was written"
guard = "the seccomp filter denies by default, and lists what is allowed"
control = {}
# In the order of their numbers: pidfd_send_signal, pidfd_open, clone3 (absent), openat2, faccessat2, epoll_pwait2,
# futex_waitv. The seal refuses process_madvise, and close_range with these flags, which include
# CLOSE_RANGE_UNSHARE.
held.reached = [424, 434, 437, 439, 441, 449]
held.absent = [435]
held.refused = 70
open.refused = { max = 20 }
[runsc]
held = { reached = [439, 441], absent = [424, 434, 435, 437, 449] }
"""
reached, absent, refused = [], [], 0
for number in range(424, 501):
    found = answer(syscall, number, -1, -1, -1, -1, -1, -1)
    if found == "EPERM":
        refused += 1
    elif found == "ENOSYS":
        absent.append(number)
    else:
        reached.append(number)
observe("reached", reached)
observe("absent", absent)
observe("refused", refused)
