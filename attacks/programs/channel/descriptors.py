"""
tries = "passes thousands of descriptors along with its messages"
wins = "a runner that has no descriptors left"
guard = "the runner reads without accepting descriptors, and the kernel drops them"
uncontrolled = "outside a sandbox, there is no channel"
aftermath = true
held.passed = 5060
"""
import errno

link = channel()
null = os.open("/dev/null", os.O_RDONLY)
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("253i", *[null] * 253))]
passed = 0
while passed < 5060:
    try:
        link.sendmsg([frame({"op": "display", "data": {"text/plain": "x"}})], rights)
        passed += 253
    except OSError as error:
        # The kernel takes only so many before the runner has read the last ones.
        if error.errno != errno.ETOOMANYREFS:
            raise
        time.sleep(0.005)
observe("passed", passed)
