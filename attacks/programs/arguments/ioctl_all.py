"""
tries = "sends every `ioctl` request from 0 to 65535 to a pipe"
wins = "a request that the filter overlooks: those below 65536 are the old ones, whose meaning depends on the file that they are sent to"
guard = "the seccomp filter allows only a list of requests; no other request reaches the kernel"
uncontrolled = "some of the requests would do harm on a terminal or a disk of the machine"
held.passed = [21505, 21506, 21507, 21508, 21513, 21514, 21515, 21518, 21519, 21520, 21521, 21523, 21524, 21531, 21537, 21538, 21541, 21545, 21584, 21585, 21586, 35077, 35088, 35090, 35091, 35093, 35111, 35123]
"""
one, other = os.pipe()
ask, failed = libc.ioctl, ctypes.get_errno
passed = []
for request in range(65536):
    ctypes.set_errno(0)
    if ask(one, ctypes.c_ulong(request), None) != -1 or failed() != errno.EPERM:
        passed.append(request)
observe("passed", passed)
