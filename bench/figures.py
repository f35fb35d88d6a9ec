"""Figures of one process, and rows that put figures of several processes beside each other. Pure."""

import json
import statistics
from dataclasses import dataclass, field

_NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_OWN_FIELDS = {
    "name", "family_index", "per_family_instance_index", "run_name", "run_type", "repetitions", "repetition_index",
    "threads", "iterations", "real_time", "cpu_time", "time_unit", "label", "figure", "limit", "share", "goal",
    "bytes_per_second", "items_per_second"
}


@dataclass
class Figure:
    """What one process found of one case."""
    name: str
    value: float
    unit: str  # "ns"; "B", bytes; or a rate, which ends in "/s", more of which is better
    limit: float = None  # in the same unit
    goal: str = ""
    note: str = ""
    parts: dict = field(default_factory=dict)  # further counters

    @property
    def more_is_better(self):
        return self.unit.endswith("/s")

    @property
    def share(self):
        if not self.limit or not self.value:
            return None
        return self.value / self.limit if self.more_is_better else self.limit / self.value


def of_google_benchmark(text):
    """The figures in what --benchmark_format=json printed; a case that failed by itself is a ValueError."""
    figures = []
    for case in json.loads(text)["benchmarks"]:
        if case.get("run_type") == "aggregate":
            continue
        if case.get("error_occurred"):
            raise ValueError("%s: %s" % (case["name"], case.get("error_message", "failed")))
        rate = "figure" in case
        value = case["figure"] if rate else case["real_time"] * _NANOSECONDS[case["time_unit"]]
        goal = case.get("goal")
        name = case["name"]
        for suffix in ("/manual_time", "/real_time", "/process_time", "/iterations:%d" % case["iterations"]):
            name = name.replace(suffix, "")
        figures.append(Figure(
            name=name, value=value, unit="/s" if rate else "ns", limit=case.get("limit"),
            goal="" if goal is None else of_goal(goal), note=case.get("label", ""),
            parts={k: v for k, v in case.items() if k not in _OWN_FIELDS and isinstance(v, (int, float))}))
    return figures


def of_goal(goal):
    """A goal is a share of the limit up to 2, and above that a time in ns."""
    return "%.2f of limit" % goal if goal <= 2 else text_of(goal, "ns")


def of_lines(text):
    """The figures in lines {"name":, "value":, "unit":, ...}, the form of everything that is not Google Benchmark."""
    figures = []
    for line in text.splitlines():
        if line.startswith("{"):
            fields = json.loads(line)
            if "name" in fields and "value" in fields:
                figures.append(Figure(**{k: v for k, v in fields.items() if k in Figure.__dataclass_fields__}))
    return figures


def of_step(text):
    """Time and memory of the line of a program <model>_step, or of a peer of it."""
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        step = json.loads(line)
        model, _, end = step.get("benchmark", "").rpartition("_")
        if end != "step":
            continue
        case = "%s/%s/threads:%d" % (model, step["size"], step["threads"])
        if step.get("mesh", "data=1") != "data=1":
            case = "%s/%s/%s" % (model, step["size"], step["mesh"].replace("=", ":"))
        if step.get("precision", "f32") != "f32":
            case += "/" + step["precision"]
        if not step["last_loss"] < step["first_loss"]:
            raise ValueError("%s: the loss did not fall: %g, then %g" % (case, step["first_loss"], step["last_loss"]))
        limit = step["limit_ms"] * 1e6 if step.get("limit_ms") else None
        note = "" if limit is None else "matmul, convolution" if step.get("limit_convolution_flops") else "matmul"
        parts = {k: step[k] for k in ("parameters", "start_seconds", "last_loss", "base_bytes") if k in step}
        peak, base = step["peak_bytes"], step["base_bytes"]
        return [
            Figure(case + "/step", step["median_ms"] * 1e6, "ns", limit=limit, note=note, parts=parts),
            Figure(case + "/memory", peak, "B", parts=parts),
            Figure(case + "/memory_beyond_libraries", peak - base, "B", parts=parts),
        ]
    raise ValueError("no line of a step")


@dataclass
class Row:
    """One line of the report: a case of ours, beside a limit, a peer, or both."""
    name: str
    unit: str = ""
    ours: list = field(default_factory=list)  # a value of each process
    peer: str = ""
    theirs: list = field(default_factory=list)
    limit: float = None
    share: float = None  # median of the shares in each process
    goal: str = ""
    note: str = ""
    trouble: str = ""  # why ours or the peer has no figure: "missing: ..." or "failed: ..."
    disturbance: float = 0.0  # the most cores that others used during a process, where the machine was not quiet
    parts: dict = field(default_factory=dict)

    @property
    def ratio(self):
        """How many times better ours is than the peer; None where either has no figure. Where both ran as often, which they did
        by turns, the median of the pairs: what slows the machine for a while slows both of one."""
        if not self.ours or not self.theirs:
            return None
        if len(self.ours) == len(self.theirs):
            pairs = [one / other for one, other in zip(self.ours, self.theirs)]
            return statistics.median(pairs if self.unit.endswith("/s") else [1 / pair for pair in pairs])
        ours, theirs = statistics.median(self.ours), statistics.median(self.theirs)
        return ours / theirs if self.unit.endswith("/s") else theirs / ours

    def fields(self):
        return dict(self.__dict__, ratio=self.ratio)


def rows_of(ours, peers):
    """Joins by name. `ours`: figures of each of our processes, a list of lists; `peers`: a list of
    (peer's name, figures of each process, trouble), trouble being "" for a peer that ran."""
    rows = []
    by_name = {}
    for process in ours:
        for figure in process:
            by_name.setdefault(figure.name, []).append(figure)
    for name, figures in by_name.items():
        first = figures[0]
        shares = [f.share for f in figures if f.share is not None]
        limits = [f.limit for f in figures if f.limit]
        base = dict(name=name, unit=first.unit, ours=[f.value for f in figures], goal=first.goal, note=first.note,
                    limit=statistics.median(limits) if limits else None,
                    share=statistics.median(shares) if shares else None, parts=first.parts)
        beside = []
        for peer, processes, trouble in peers:
            matching = [f for process in processes for f in process if f.name == name]
            if any(f.unit != first.unit for f in matching):
                raise ValueError("%s: ours in %s, that of %s in another unit" % (name, first.unit, peer))
            differing = [f for f in matching
                         if f.parts.get("parameters", 0) != first.parts.get("parameters", 0)]
            if differing:
                trouble, matching = "failed: another model, of %d parameters" % differing[0].parts["parameters"], []
            if matching or trouble:
                beside.append(Row(**base, peer=peer, theirs=[f.value for f in matching], trouble=trouble))
        rows.extend(beside or [Row(**base)])
    return rows


def best_peer_row(rows):
    """Of rows of one case, the one whose peer is best of those that gave a figure; None if none did."""
    running = [row for row in rows if row.ratio is not None]
    return min(running, key=lambda row: row.ratio) if running else None


def text_of_share(share):
    """"" without one. A limit that was beaten is the least that the machine can do, and the share of it says no more."""
    return "" if share is None else "%.2f" % share if share <= 1 else "at least 1"


def text_of(value, unit):
    """"1.23 us", "45.6 G/s", "410 MB"."""
    if value is None:
        return ""
    if unit == "ns":
        for scale, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
            if value >= scale:
                return "%s %s" % (_digits(value / scale), name)
        return "%s ns" % _digits(value)
    joint = "" if unit in ("B", "/s", "B/s") else " "
    for scale, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            space = "" if joint else " "
            return _digits(value / scale) + space + name + joint + unit
    return "%s %s" % (_digits(value), unit)


def _digits(value):
    return "%.0f" % value if value >= 100 else "%.1f" % value if value >= 10 else "%.2f" % value


def spread_text(values, unit):
    if len(values) < 2:
        return ""
    return "%s - %s" % (text_of(min(values), unit), text_of(max(values), unit))
