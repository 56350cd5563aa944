"""
tries = "reads what identifies a machine: its id, its hardware's serial numbers, its network cards, its host name"
wins = "a mark by which two jobs of two tenants learn that they share a machine"
guard = "`/etc/machine-id` is not shown, and `/sys` is empty; the network namespace has loopback only; the uts namespace is the sandbox's own"
control = {}
held.id = ""
held.bus_id = ""
held.product = ""
held.board = ""
held.cards = ["lo"]
held.name = "sandbox"
open.name = { none = ["sandbox"] }
[runsc]
held.name = { none = [""] }
"""
def head(path):
    try:
        with open(path) as file:
            return file.read(200)
    except FileNotFoundError:
        return ""



observe("id", head("/etc/machine-id"))
observe("bus_id", head("/var/lib/dbus/machine-id"))
observe("product", head("/sys/class/dmi/id/product_uuid"))
observe("board", head("/sys/class/dmi/id/board_serial"))
observe("cards", [name for _, name in enumerate(line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line)])
observe("name", socket.gethostname())
