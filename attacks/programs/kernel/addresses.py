"""
tries = "reads kernel and physical addresses from `/proc`: `kallsyms`, `kcore`, `modules`, `timer_list`, its own `pagemap`"
wins = "where the kernel is, and which physical pages are the job's own (rowhammer)"
guard = "the files are covered; the kernel shows page frame numbers only to a process with a capability"
control = {}
held.kallsyms = ""
held.kcore = 0
held.modules = ""
held.timer_list = ""
held.page_frames = 0
open.kallsyms = { none = [""] }
open.page_frames = { min = 1 }
[runsc]
held.page_frames = "absent"
"""


def head(path):
    try:
        with open(path) as file:
            return file.read(20)
    except FileNotFoundError:
        return ""


for name in ("kallsyms", "modules", "timer_list"):
    observe(name, head("/proc/" + name))
observe("kcore", os.stat("/proc/kcore").st_size if os.path.exists("/proc/kcore") else 0)
text = ctypes.create_string_buffer(b"touched", 4096)
try:
    with open("/proc/self/pagemap", "rb") as file:
        file.seek(ctypes.addressof(text) // 4096 * 8)
        observe("page_frames", struct.unpack("Q", file.read(8))[0] & ((1 << 55) - 1))
except FileNotFoundError:
    observe("page_frames", "absent")
