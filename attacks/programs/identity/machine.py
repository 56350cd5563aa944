"""
tries = "reads what names a machine: its id, its hardware's numbers, its network cards, its name"
wins = "a mark by which two jobs, of two tenants, know that they are on one machine"
guard = "neither /etc/machine-id nor /sys is there; the network namespace has loopback only; the uts namespace is the sandbox's own"
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
