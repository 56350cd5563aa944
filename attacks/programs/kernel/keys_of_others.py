"""
tries = "reads what /proc tells of others: keys, scheduler, interrupts' timers, ACPI, SCSI, pressure"
wins = "other people's doings"
guard = "the files are covered by /dev/null, the folders by an empty one"
control = {}
held.keys = ""
held.key_users = ""
held.folders = []
open.key_users = { none = [""] }
[runsc]
held = { keys = "absent", key_users = "absent" }
"""


def head(path):
    try:
        with open(path) as file:
            return file.read(20)
    except FileNotFoundError:
        return "absent"


observe("keys", head("/proc/keys"))
observe("key_users", head("/proc/key-users"))
FOLDERS = ("/proc/acpi", "/proc/scsi", "/proc/pressure", "/proc/asound", "/sys")
observe("folders", [name for place in FOLDERS if os.path.isdir(place) for name in os.listdir(place)])
