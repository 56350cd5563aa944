"""The files of programs: a program is a file, as with `python main.py`, and what looks for its own file finds it.

The first program is `main.py`. A session's next ones are `main-2.py`, `main-3.py` and so on: functions live on, and
their code names the file that they are from. A name that something else has is left to it.
"""

import os

# The oldest files go when a session's programs take more than this together. The source of their functions stays in
# `linecache`.
MOST_KEPT = 1 << 20
BLOCK = 4096
# Nothing is followed, and nothing waits: a program can put anything under these names.
MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ProgramFiles:
    def __init__(self, folder):
        self.folder = folder
        self.number = 0
        self.kept = []
        self.size = 0

    def write(self, source):
        """Write the next program. Returns the name of its file. If it can't be written (the disk is full), the program
        runs all the same, by a name that nothing has."""
        text = _encoded(source)
        while True:
            self.number += 1
            name = "main-%d.py" % self.number if self.number > 1 else "main.py"
            path = os.path.join(self.folder, name)
            try:
                fd = os.open(path, MAKE, 0o644)
            except FileExistsError:
                if _holds(path, text):
                    return name
                continue
            except OSError:
                return name
            self.fill(fd, path, text)
            return name

    def fill(self, fd, path, text):
        try:
            left = memoryview(text)
            while left:
                left = left[os.write(fd, left) :]
            mark = _mark(os.fstat(fd))
        except OSError:
            os.unlink(path)
            return
        finally:
            os.close(fd)
        size = max(len(text), BLOCK)
        self.kept.append((path, mark, size))
        self.size += size
        while self.size > MOST_KEPT and len(self.kept) > 1:
            self.remove(*self.kept.pop(0))

    def remove(self, path, mark, size):
        """Remove a program's file, unless somebody has changed it."""
        self.size -= size
        try:
            if _mark(os.lstat(path)) == mark:
                os.unlink(path)
        except OSError:
            pass

    def clear(self):
        """Remove all files, and begin anew."""
        while self.kept:
            self.remove(*self.kept.pop())
        self.number = 0


def _mark(stat):
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _holds(path, text):
    """Whether that file is this program: a client that sends its folder sends the program, too."""
    try:
        fd = os.open(path, READ)
    except OSError:
        return False
    try:
        return os.fstat(fd).st_size == len(text) and os.read(fd, len(text)) == text
    except OSError:
        return False
    finally:
        os.close(fd)


def _encoded(source):
    """The program's bytes, in the encoding that it declares (PEP 263), or else in UTF-8."""
    if "coding" in source[:400]:
        from io import BytesIO
        from tokenize import detect_encoding

        try:
            return source.encode(detect_encoding(BytesIO(source.encode()).readline)[0])
        except (SyntaxError, UnicodeError):
            pass
    return source.encode("utf-8", "surrogatepass")
