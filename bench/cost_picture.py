"""A picture of what each part of a problem costs over its multiply-adds W, from the lines of `problem_times`."""
import math

COLOURS = ("#888888", "#2a78d6", "#1f9d55", "#d6402a", "#8b4fc0")
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 400, 60, 20, 110, 46


def bands(lines):
    """Lines by powers of four of W: {log2 of the middle: lines}, where there are ten or more."""
    found = {}
    for line in lines:
        found.setdefault(int(math.log2(max(1, line["w"]))) // 2 * 2 + 1, []).append(line)
    return {middle: found[middle] for middle in sorted(found) if len(found[middle]) >= 10}


def svg(lines, parts):
    of_band = bands(lines)
    curves = {part: [(middle, sum(line[part] for line in some) / len(some)) for middle, some in of_band.items()] for part in parts}
    values = [y for curve in curves.values() for _, y in curve if y > 0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    first, last = min(of_band), max(of_band)

    def x_of(middle):
        return LEFT + (WIDTH - LEFT - RIGHT) * (middle - first) / max(1, last - first)

    def y_of(seconds):
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - math.log10(max(seconds, 10.0**low))) / (high - low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for decade in range(low, high + 1):
        y = y_of(10.0**decade)
        name = f"{10 ** (decade + 6):g} us" if decade < -3 else f"{10 ** (decade + 3):g} ms"
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{name}</text>')
    for middle in of_band:
        out.append(f'<text x="{x_of(middle):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">2^{middle}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">'
               "multiply-adds W of a problem; mean time of each part</text>")
    last_label = []
    for part, colour in zip(parts, COLOURS):
        points = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in curves[part])
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        last_label.append([y_of(curves[part][-1][1]), part, colour])
    last_label.sort()
    for n, (y, part, colour) in enumerate(last_label):  # apart from each other
        y = y if n == 0 else max(y, last_label[n - 1][0] + 14)
        last_label[n][0] = y
        out.append(f'<text x="{WIDTH - RIGHT + 8}" y="{y + 4:.1f}" fill="{colour}">{part}</text>')
    return "\n".join(out + ["</svg>\n"])
