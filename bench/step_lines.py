"""Training steps as the report's first table and its bars show them: a line for each case, out of the rows of
figures.py and the sums of its kernels. Pure."""

import statistics
from dataclasses import dataclass, field

from bench.figures import text_of, text_of_share


@dataclass
class Line:
    """One case of one model: "bert/bert_base/threads:2/bf16"."""
    case: str
    title: str  # "BERT base, bf16, 2 threads"
    ours: float = None  # ns, the median of whole processes
    trouble: str = ""  # of ours
    limit: float = None  # ns: products and convolutions alone, at their limits
    kernels_limit: float = None  # ns: every kernel at the limit that binds it
    memory: float = None  # bytes at the peak
    peers: dict = field(default_factory=dict)  # name -> ns, or why there is none
    peers_memory: dict = field(default_factory=dict)
    ratios: dict = field(default_factory=dict)  # name -> how many times faster ours is
    disturbance: float = 0.0

    @property
    def best(self):
        """(name of the fastest peer, how many times faster ours is); None where no peer gave a figure."""
        known = sorted(self.ratios.items(), key=lambda item: item[1])
        return known[0] if known else None


def _median(values):
    return statistics.median(values) if values else None


def title_of(case, title):
    words = case.split("/")
    threads = next((word.split(":")[1] for word in words if word.startswith("threads:")), "")
    return "%s, %s%s" % (title, "bf16" if "bf16" in words else "f32",
                         "" if not threads else ", %s thread%s" % (threads, "" if threads == "1" else "s"))


def lines_of(rows, kernels, titles):
    """`rows`: those of the groups of models; `kernels`: those of group ops; `titles`: what to call a case by its first
    two words, and what ops_benchmark calls its step: {"bert/bert_base": ("BERT base", "bert_base")}."""
    lines = {}
    for row in rows:
        case, _, what = row.name.rpartition("/")
        known = titles.get("/".join(case.split("/")[:2]))
        if known is None or what not in ("step", "memory"):
            continue
        line = lines.setdefault(case, Line(case, title_of(case, known[0]),
                                           kernels_limit=_kernels_limit(kernels, known[1], case)))
        line.disturbance = max(line.disturbance, row.disturbance)
        if what == "memory":
            line.memory = _median(row.ours)
            if row.theirs:
                line.peers_memory[row.peer] = _median(row.theirs)
            continue
        line.ours, line.limit = _median(row.ours), row.limit
        if row.peer:
            line.peers[row.peer] = _median(row.theirs) if row.theirs else row.trouble
        if row.ratio is not None:
            line.ratios[row.peer] = row.ratio
    return list(lines.values())


def _kernels_limit(kernels, size, case):
    """What the kernels of a step would take, each at its limit; they are timed with two threads."""
    words = case.split("/")
    if "threads:2" not in words:
        return None
    prefix = "ops/%s/threads:2/%s" % (size, "bf16/" if "bf16" in words else "")
    sums = {row.name: row for row in kernels}
    parts = [sums.get(prefix + name) for name in ("products of a step", "others of a step")]
    return None if None in parts else sum(row.limit or 0 for row in parts)


HEADINGS = ("step", "ours", "steps/s", "of products' limit", "of all kernels' limits", "PyTorch eager",
            "PyTorch compiled", "others", "faster than the best of them", "memory", "of eager's")


def cells_of(line):
    def share(limit):
        return text_of_share(limit / line.ours if limit and line.ours else None)

    def peer(name):
        value = line.peers.get(name)
        return value.split(":")[0] if isinstance(value, str) else text_of(value, "ns")

    others = ["%s: %s" % (name, peer(name)) for name in line.peers if name not in ("PyTorch eager", "PyTorch compiled")]
    eager = line.peers_memory.get("PyTorch eager")
    return (line.title + (" (disturbed)" if line.disturbance else ""), text_of(line.ours, "ns") or line.trouble,
            "%.3g" % (1e9 / line.ours) if line.ours else "", share(line.limit), share(line.kernels_limit),
            peer("PyTorch eager"), peer("PyTorch compiled"), "; ".join(others),
            "" if line.best is None else "%.2fx (%s)" % (line.best[1], line.best[0]), text_of(line.memory, "B"),
            "%.2f" % (line.memory / eager) if eager and line.memory else "")
