#!/usr/bin/env python3
"""Draws the figures that report.pl asks for, a list in JSON on standard input, with matplotlib; answers with a list of SVG texts.
The same figures give the same bytes. Text stays text in a generic font, and colours follow the reader's light or dark scheme."""
import io
import json
import re
import sys

try:
    import matplotlib
except ImportError:
    sys.exit(f"error: {sys.executable} has no matplotlib, which draws the pictures: apt-get install python3-matplotlib, or\n"
             "pip install matplotlib in an environment whose interpreter PYTHON names (make bench-report PYTHON=venv/bin/python)")
matplotlib.use("svg")
from matplotlib.patches import Rectangle
from matplotlib.figure import Figure

# text, lesser text, lines of the grid, background: in the light scheme, and in the dark one
INK, LESSER, GRID, PAPER = "#1f2328", "#59636e", "#d8dee4", "#ffffff"
DARK = {INK: "#f0f6fc", LESSER: "#a4adb8", GRID: "#333b45", PAPER: "#0d1117"}
# of Okabe and Ito, which colour-blind readers tell apart, also by lightness
SERIES = {"core": "#8b949e", "cpu": "#56b4e9", "gpu": "#0072b2", "duckdb": "#e69f00", "fifth": "#cc79a7"}
WIDTH = 880
SIZE = 11

matplotlib.rcParams.update({
    "svg.fonttype": "none", "svg.hashsalt": "hjoin_gpu", "font.size": SIZE, "text.color": INK, "text.parse_math": False,
    "axes.edgecolor": GRID, "axes.labelcolor": LESSER, "xtick.color": LESSER, "ytick.color": LESSER, "xtick.labelcolor": INK, "ytick.labelcolor": LESSER,
    "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False, "axes.axisbelow": True,
    "xtick.major.size": 0, "ytick.major.size": 0, "ytick.minor.size": 0})


def new_figure(height, figure):
    """An empty figure with title, caption and note; a unit of its size is one of the picture, text has sizes in these units."""
    fig = Figure(figsize=(WIDTH / 72, height / 72), facecolor=PAPER)
    at(fig, 16, 24, figure["title"], fontsize=16, fontweight="bold")
    return fig


def at(fig, x, y, text, **kwargs):
    """Text at a place that is counted from the upper left corner, by its baseline: so the place does not depend on the font."""
    height = fig.get_figheight() * 72
    return fig.text(x / WIDTH, 1 - (y + 4) / height, text, va="baseline", **kwargs)


def beside(axes, x, y, right, up, text, **kwargs):
    """Text in so many units from a point of the axes."""
    axes.annotate(text, (x, y), xytext=(right, up), textcoords="offset points", va="baseline", annotation_clip=False, **kwargs)


def box(fig, left, top, right, bottom):
    """Axes between these edges, counted from the upper left corner."""
    height = fig.get_figheight() * 72
    axes = fig.add_axes([left / WIDTH, 1 - bottom / height, (right - left) / WIDTH, (bottom - top) / height])
    axes.set_facecolor("none")
    return axes


def legend(fig, y, names, colors, places):
    height = fig.get_figheight() * 72
    for name, color, x in zip(names, colors, places):
        fig.add_artist(Rectangle((x / WIDTH, 1 - (y + 5) / height), 11 / WIDTH, 11 / height, color=color, linewidth=0))
        at(fig, x + 17, y - 0.5, name)


def duration(ms):
    return f"{ms / 1000:g} s" if ms >= 1000 else f"{ms:g} ms"


def log_axis(axes, least, most):
    """Powers of ten, with their units, that hold all values."""
    ticks = [10 ** e for e in range(-1, 8)]
    low = max((t for t in ticks if t < least), default=ticks[0])
    axes.set_yscale("log")
    axes.set_ylim(low, most)
    axes.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    ticks = [t for t in ticks if low <= t <= most]
    axes.set_yticks(ticks, [duration(t) for t in ticks])
    # without a clip path, whose name differs by version
    axes.grid(axis="y", color=GRID, linewidth=0.8, clip_on=False)


def bars(figure):
    fig = new_figure(440, figure)
    at(fig, 16, 46, figure["caption"], color=LESSER)
    series = figure["series"]
    legend(fig, 70, [s["name"] for s in series], [SERIES[s["color"]] for s in series], [16, 160, 350, 550])
    at(fig, 665, 69.5, figure["means"], color=LESSER)
    axes = box(fig, 58, 92, WIDTH - 12, 396)
    values = [v for s in series for v in s["values"]]
    log_axis(axes, min(values), max(values) * 2)
    low = axes.get_ylim()[0]
    width = 0.84 / len(series)
    for number, s in enumerate(series):
        for group, value in enumerate(s["values"]):
            x = group - 0.42 + number * width
            axes.add_patch(Rectangle((x, low), width, value - low, color=SERIES[s["color"]], linewidth=0, clip_on=False))
    for group, label in enumerate(figure["labels"]):
        top = max(s["values"][group] for s in series)
        beside(axes, group, top, 0, 4, label, ha="center", fontweight="bold")
    axes.set_xlim(-0.6, len(figure["groups"]) - 0.4)
    axes.set_xticks(range(len(figure["groups"])), figure["groups"])
    axes.tick_params(axis="x", pad=6)
    at(fig, 16, 426, figure["note"], color=LESSER)
    return fig


def lines(figure):
    fig = new_figure(392, figure)
    at(fig, 16, 46, figure["note"], color=LESSER)
    legend(fig, 70, figure["names"], [SERIES[c] for c in figure["colors"]], [16, 160, 310])
    panels = figure["panels"]
    step = (WIDTH - 58) / len(panels)
    values = [y for p in panels for line in p["lines"] for y in line["y"]]
    for number, panel in enumerate(panels):
        left = 58 + number * step
        axes = box(fig, left, 116, left + step - 36, 300)
        log_axis(axes, min(values), max(values) * 1.6)
        if number:
            axes.set_yticklabels([])
        xs = sorted({x for line in panel["lines"] for x in line["x"]})
        axes.set_xticks(xs, [f"{x:g} {panel['axis']}" if x == xs[-1] else f"{x:g}" for x in xs])
        axes.set_xlim(xs[0] - 0.08 * (xs[-1] - xs[0]), xs[-1] + 0.08 * (xs[-1] - xs[0]))
        at(fig, left, 100, panel["title"], fontweight="bold")
        for place, line in enumerate(panel["lines"]):
            axes.plot(line["x"], line["y"], color=SERIES[line["color"]], linewidth=2.5, marker="o", markersize=6, clip_on=False)
            # the values of the lowest line stand below it, where another line is near
            below = place == len(panel["lines"]) - 1
            for x, y in zip(line["x"], line["y"]):
                beside(axes, x, y, 0, -17 if below else 8, f"{y:g}", ha="center")
    for row, text in enumerate(figure["caption"].split("\n")):
        at(fig, 16, 338 + 17 * row, text, color=LESSER)
    return fig


def shares(figure):
    rows = len(figure["groups"])
    fig = new_figure(132 + 30 * rows, figure)
    at(fig, 16, 46, figure["note"], color=LESSER)
    legend(fig, 70, figure["names"], [SERIES[c] for c in figure["colors"]], [16, 200])
    axes = box(fig, 200, 88, WIDTH - 130, 92 + 30 * rows)
    for row, values in enumerate(figure["values"]):
        left = 0
        for value, color in zip(values, figure["colors"]):
            share = 100 * value / sum(values)
            axes.add_patch(Rectangle((left, row - 0.36), share, 0.72, color=SERIES[color], linewidth=0))
            left += share
        share = 100 * values[0] / sum(values)
        beside(axes, 100, row, 6, -4, f"{share:.0f} % of {sum(values):g} ms")
    axes.set_xlim(0, 100)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.set_yticks(range(rows), figure["groups"])
    axes.tick_params(axis="y", labelcolor=INK)
    at(fig, 16, 112 + 30 * rows, figure["caption"], color=LESSER)
    return fig


LINE = 17
LABELS, NUMBERS = 250, 190


def ends(value, axis):
    """Both ends of a range on the axis; an end that is not told is the axis's."""
    return value.get("least", axis[0]), value.get("most", axis[1])


def claims_axis(panel):
    """Limits of the axis that hold all numbers, and whether it is logarithmic: where the most is many times the least."""
    told = [value for row in panel["rows"] for value in (row["theirs"]["range"], row["ours"]["range"], row["spread"]) if value]
    numbers = [number for value in told for number in value.values()] or [1]
    if min(numbers) > 0 and max(numbers) > 30 * min(numbers):
        return (min(numbers) / 1.5, max(numbers) * 1.5), True
    return (0, max(numbers) * 1.08), False


def claims(figure):
    panels = figure["panels"]
    heights = [56 + 2 * LINE * len(p["rows"]) + 30 for p in panels]
    fig = new_figure(96 + sum(heights), figure)
    at(fig, 16, 46, figure["note"], color=LESSER)
    legend(fig, 70, figure["names"], [SERIES[c] for c in figure["colors"]], [16, 110])
    top = 92
    for panel, height in zip(panels, heights):
        at(fig, 16, top + 14, panel["title"], fontweight="bold")
        at(fig, 16, top + 31, panel["caption"], color=LESSER)
        axes = box(fig, LABELS, top + 40, WIDTH - NUMBERS, top + height - 46)
        limits, is_log = claims_axis(panel)
        if is_log:
            axes.set_xscale("log")
            axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        axes.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda x, _: f"{x:g}"))
        axes.set_xlim(*limits)
        axes.set_ylim(len(panel["rows"]), 0)
        axes.grid(axis="x", color=GRID, linewidth=0.8, clip_on=False)
        axes.set_yticks([])
        for place, row in enumerate(panel["rows"]):
            at(fig, 16, top + 40 + 2 * LINE * place + LINE + 4, row["label"])
            for side, color, y in zip(("theirs", "ours"), figure["colors"], (place + 0.3, place + 0.7)):
                value, color = row[side]["range"], SERIES[color]
                beside(axes, limits[1], y, 8, -4, row[side]["text"], color=INK if value else LESSER)
                if not value:
                    continue
                if side == "ours" and row["spread"]:
                    axes.plot(ends(row["spread"], limits), [y, y], color=color, linewidth=1.5, clip_on=False)
                least, most = ends(value, limits)
                axes.plot([least, most], [y, y], color=color, linewidth=6, alpha=0.55, solid_capstyle="butt", clip_on=False)
                axes.plot(list(value.values()), [y] * len(value), color=color, linestyle="none", marker="o", markersize=6, clip_on=False)
        top += height
    return fig


def distributions(figure):
    panels = figure["panels"]
    fig = new_figure(392, figure)
    at(fig, 16, 46, figure["caption"], color=LESSER)
    legend(fig, 70, figure["names"], [SERIES[c] for c in figure["colors"]], [16 + 130 * i for i in range(len(figure["names"]))])
    step = (WIDTH - 46) / len(panels)
    xs = [x for p in panels for line in p["lines"] for x in line["x"]] + [1]
    ticks = [t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if min(xs) / 1.1 <= t <= max(xs) * 1.1]
    for number, panel in enumerate(panels):
        left = 46 + number * step
        axes = box(fig, left, 116, left + step - 30, 330)
        axes.set_xscale("log")
        axes.set_xlim(min(xs) / 1.1, max(xs) * 1.1)
        axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
        axes.set_ylim(0, 100)
        axes.set_yticks(range(0, 101, 25), [] if number else [f"{t} %" for t in range(0, 101, 25)])
        axes.grid(axis="y", color=GRID, linewidth=0.8, clip_on=False)
        at(fig, left, 100, panel["title"], fontweight="bold")
        axes.plot([1, 1], [0, 100], color=INK, linewidth=1.2, clip_on=False)
        for line in panel["lines"]:
            axes.plot(line["x"], line["y"], color=SERIES[figure["colors"][line["place"]]], linewidth=2.5, marker="o", markersize=5, clip_on=False)
    at(fig, 16, 378, figure["note"], color=LESSER)
    return fig


def plain_style(match):
    """A style without its font's name, in one order: versions of matplotlib differ in both."""
    rules = dict(rule.strip().split(": ", 1) for rule in match.group(1).split(";") if rule.strip())
    rules.pop("font-family", None)
    if font := re.match(r"(?:(\w+) )?(\S+px) ", rules.pop("font", "")):
        rules["font-size"] = font.group(2)
        if font.group(1):
            rules["font-weight"] = font.group(1)
    if rules.get("font-weight") == "bold":
        rules["font-weight"] = "700"
    return 'style="' + "; ".join(f"{name}: {rules[name]}" for name in sorted(rules)) + '"'


def tidy(svg, figure):
    """The drawing without what is matplotlib's own: fonts, identifiers and digits that nobody needs; with title, text for those who
    cannot see it, and the dark scheme's colours."""
    body = re.search(r"<svg .*</svg>", svg, re.S).group(0)
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.S)
    # names that are used are numbered by figure, so that several figures can be on one page
    names = {name: f"{figure.get('name', figure['kind'])}{number}" for number, name in enumerate(dict.fromkeys(re.findall(r"(?:url\(#|href=\"#)([\w.-]+)", body)))}
    body = re.sub(r' id="([\w.-]+)"', lambda m: f' id="{names[m.group(1)]}"' if m.group(1) in names else "", body)
    body = re.sub(r"(url\(#|href=\"#)([\w.-]+)", lambda m: m.group(1) + names[m.group(2)], body)
    body = re.sub(r'style="([^"]*)"', plain_style, body)
    body = re.sub(r' transform="rotate\(-0 [^)]*\)"', "", body)
    body = re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m.group(0)):.2f}".rstrip("0").rstrip("."), body)
    body = re.sub(r"<!--.*?-->\s*", "", body, flags=re.S)
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", body, flags=re.S)
    body = re.sub(r"\s*\n\s*", "\n", body)
    while (shorter := re.sub(r"<g>\s*</g>\s*|<g/>\s*", "", body)) != body:
        body = shorter
    view = re.search(r'viewBox="[^"]*"', body).group(0)
    _, _, width, height = view[9:-1].split()
    dark = "".join(f'[style*="{what}: {light}"]{{{what}:{DARK[light]}!important}}' for light in DARK for what in ("fill", "stroke"))
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" font-family="sans-serif" width="{width}" height="{height}" {view}>\n'
            f"<title>{escape(figure['title'])}</title>\n<desc>{escape(figure['caption'])}. {escape(figure['note'])}.</desc>\n"
            "<style>*{stroke-linejoin:round;stroke-linecap:butt}\n"
            f"@media (prefers-color-scheme:dark){{{dark}}}</style>\n")
    return head + re.sub(r"<svg [^>]*>\s*", "", body, count=1) + "\n"


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


DRAW = {"bars": bars, "lines": lines, "shares": shares, "claims": claims, "distributions": distributions}
answers = []
for wanted in json.load(sys.stdin):
    out = io.StringIO()
    DRAW[wanted["kind"]](wanted).savefig(out, format="svg", facecolor=PAPER, metadata={"Date": None, "Creator": None})
    answers.append(tidy(out.getvalue(), wanted))
json.dump(answers, sys.stdout)
