"""
tries = "reads what `/proc` shows of others: `keys` and `key-users`, and the folders of ACPI, SCSI, sound and pressure"
wins = "what others do"
guard = "the files are covered by `/dev/null`, and the folders by an empty one"
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
