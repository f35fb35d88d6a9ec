"""How long processes waited for a core: what a limit of time on a loaded machine is told apart from what they did with it."""
import pathlib
import time


def seconds_ready(pid):
    """By thread: how long it could have run, and others had the cores. None where the kernel does not say."""
    waited = {}
    try:
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            waited[thread.name] = int((thread / "schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError):
        return None  # or it has ended
    return waited


class Watch:
    """Time since it was made, and how much of it the processes waited while others had the cores.

    Of several threads the one that waited most counts: the others may wait for it.
    """

    def __init__(self, pids):
        self._begin = time.monotonic()
        self._before = {pid: seconds_ready(pid) or {} for pid in pids}
        self._after = dict(self._before)

    def look(self):
        """Seconds since the beginning. Often: what a process has waited is gone with it."""
        for pid in self._before:
            self._after[pid] = seconds_ready(pid) or self._after[pid]
        return time.monotonic() - self._begin

    def waited(self):
        return max([waited - self._before[pid].get(thread, 0)
                    for pid, threads in self._after.items() for thread, waited in threads.items()], default=0)
