"""Draws which folder of the library includes which, as docs/folders.svg: what stands higher includes what stands lower."""

GROUND = ("util", "rocksdb")  # nearly all include them: a bar at the bottom instead of arrows
WIDTH, ROW, BOX, HEIGHT, GAP, LANE = 860, 74, 116, 30, 22, 16


def without_detours(edges):
    """Drops an arrow where a longer way leads to the same folder."""
    def reaches(start, goal, first):
        return any(to == goal or reaches(to, goal, False) for to in edges[start] if not (first and to == goal))
    return {name: sorted(to for to in targets if not reaches(name, to, True)) for name, targets in edges.items()}


def lay_out(edges):
    """Rows from the top, and of each arrow the names that it passes. A folder stands just above what it includes; an arrow
    over several rows keeps a lane free in each."""
    depth = {}

    def depth_of(name):
        if name not in depth:
            depth[name] = 1 + max((depth_of(to) for to in edges[name]), default=-1)
        return depth[name]

    top = max(map(depth_of, sorted(edges)))
    rows = [[name for name in sorted(edges) if depth[name] == top - row] for row in range(top + 1)]
    ways = []
    for name, targets in sorted(edges.items()):
        for to in targets:
            lanes = [(name, to, level) for level in range(depth[name] - 1, depth[to], -1)]
            for lane in lanes:
                rows[top - lane[2]].append(lane)
            ways.append([name, *lanes, to])
    return rows, ways


def spread(row):
    """The middle of each in a row, as far apart as its neighbours need."""
    widths = [BOX if isinstance(name, str) else LANE for name in row]
    at = (WIDTH - sum(widths) - GAP * (len(row) - 1)) / 2
    middles = {}
    for name, width in zip(row, widths):
        middles[name] = at + width / 2
        at += width + GAP
    return middles


def untangle(rows, ways):
    """Orders each row by where its neighbours above and below stand, until that has settled."""
    pairs = [pair for way in ways for pair in zip(way, way[1:])]
    beside = {name: ([], []) for row in rows for name in row}
    for upper, lower in pairs:
        beside[upper][1].append(lower)
        beside[lower][0].append(upper)
    x = {name: middle for row in rows for name, middle in spread(row).items()}
    best, fewest = dict(x), None
    for turn in range(40):
        for row in rows if turn % 2 == 0 else reversed(rows):
            def wanted(name):
                near = beside[name][turn % 2] or [name]
                return sum(x[other] for other in near) / len(near)
            row.sort(key=lambda name: (wanted(name), str(name)))
            x.update(spread(row))
        crossings = sum((x[a] - x[c]) * (x[b] - x[d]) < 0
                        for row in rows for i, (a, b) in enumerate(pairs) if a in row for c, d in pairs[:i] if c in row)
        if fewest is None or crossings < fewest:
            best, fewest = dict(x), crossings
    return best


def picture(includes):
    """includes: of each folder the set of those that it includes."""
    edges = {name: {to for to in targets if to not in GROUND} for name, targets in includes.items() if name not in GROUND}
    rows, ways = lay_out(without_detours(edges))
    x = untangle(rows, ways)
    y = {name: level * ROW + 8 for level, row in enumerate(rows) for name in row}
    height = len(rows) * ROW + 46
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">',
           f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>']
    for way in ways:
        path = f"M{x[way[0]]:.0f} {y[way[0]] + HEIGHT}"
        for upper, lower in zip(way, way[1:]):
            begin, end = y[upper] + HEIGHT, y[lower] - (5 if lower == way[-1] else 0)
            path += f" C{x[upper]:.0f} {begin + 22} {x[lower]:.0f} {end - 22} {x[lower]:.0f} {end}"
            if lower != way[-1]:
                path += f" V{end + HEIGHT}"
        tip, down = x[way[-1]], y[way[-1]]
        out.append(f'<path d="{path}" fill="none" stroke="#667085"/>')
        out.append(f'<path d="M{tip - 4:.0f} {down - 7} L{tip + 4:.0f} {down - 7} L{tip:.0f} {down} Z" fill="#667085"/>')
    for name in sorted(edges):
        out.append(f'<rect x="{x[name] - BOX / 2:.0f}" y="{y[name]}" width="{BOX}" height="{HEIGHT}" rx="4" fill="#e4edf6" '
                   'stroke="#5b7fa6"/>')
        out.append(f'<text x="{x[name]:.0f}" y="{y[name] + 20}" text-anchor="middle" fill="#1b1f24">{name}/</text>')
    ground = len(rows) * ROW + 4
    out.append(f'<rect x="8" y="{ground}" width="{WIDTH - 16}" height="{HEIGHT}" rx="4" fill="#eef0f2" stroke="#8a9099"/>')
    out.append(f'<text x="{WIDTH / 2:.0f}" y="{ground + 20}" text-anchor="middle" fill="#1b1f24">'
               + ", ".join(f"{name}/" for name in GROUND) + ": included by nearly all</text>")
    return "\n".join(out + ["</svg>", ""])
