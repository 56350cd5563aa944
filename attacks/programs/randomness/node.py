"""
tries = "asks in two jobs for the number by which version 1 UUIDs name a machine"
wins = "a mark by which two jobs learn that they share a machine, and UUIDs that collide"
guard = "the network namespace has no card with an address; a forked child draws a number of its own"
control = {}
held.node = { unlike = true }
held.card = false
open.node = { alike = true }
"""
import uuid

observe("node", uuid.getnode())
observe("card", any(open("/sys/class/net/" + name + "/address").read(17) != "00:00:00:00:00:00" for name in (os.listdir("/sys/class/net") if os.path.isdir("/sys/class/net") else [])))
# --- the same job again
