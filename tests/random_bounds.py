"""Random functions whose indices are in range, or not: it depends on the lengths of arrays that are drawn, too."""

TURNS = ["range(n)", "range(x.size)", "range(t.size)", "range(1, n - 1)", "range(1, x.size)", "range(n - 1, -1, -1)",
         "range(0, n, 2)", "range(n - 1, 0, -2)", "range({outer})", "range({outer}, n)", "range({outer} + 1, n)",
         "range(places[0], places[1])", "range(n - 3, 0)", "range({outer}, 0, -1)", "range(u.shape[0])",
         "range(u.shape[1])", "prange(n)"]  # fmt: skip


class Reach:
    """Writes the source of a function ``f(x, t, u, places, n, c)`` of two vectors, a matrix, integers and numbers."""

    def __init__(self, random):
        self.random = random
        self.loops = []
        self.names = 0

    def source(self):
        r = self.random
        lines = ["s = 0.5", "k = 0", "w = np.zeros(n)", f"part = x[{r.choice(['1:', ':-1', '1:4', '::2', 'n - 2:n'])}]"]
        for _ in range(r.randint(1, 3)):
            lines += self.statement(r.randint(1, 3))
        lines.append(r.choice(["return s", "return s * c", "return s + w[0] * c", "return s + x[-1]", "return s, w"]))
        return "def f(x, t, u, places, n, c):\n" + "".join(f"    {line}\n" for line in lines)

    def index(self, sure=False):
        r = self.random
        loop = r.choice(self.loops) if self.loops else "2"
        other = r.choice(self.loops) if self.loops else "n - 1"
        plain = [loop] * 6 + [f"{loop} + 1", f"{loop} - 1", f"{loop} + {other}", f"2 * {loop}", f"n - 1 - {loop}"]
        if sure:
            return r.choice(plain)
        return r.choice([*plain, f"{loop} - {other}", f"-{loop} - 1", f"({loop} + 1) % n", f"{loop} // 2", "-1", "0",
                         "3", f"places[{loop}]", f"places[{loop}] + 1", "k", f"min({loop} + 1, n - 1)", "n", "n - 1",
                         f"max({loop} - 1, 0)", f"places[{loop} % 3]"])  # fmt: skip

    def element(self):
        r = self.random
        if r.random() < 0.25:
            return f"u[{self.index()}, {self.index()}]"
        return f"{r.choice(['x', 't', 't', 'w', 'part'])}[{self.index()}]"

    def value(self):
        r = self.random
        a, b = self.element(), r.choice([self.element(), "c", "s"])
        kind = r.randint(0, 6)
        if kind == 0:
            i = self.index(True)
            return f"({r.choice(['x', 't'])}[{i}] if {i} < {r.choice(['n', 'x.size', 't.size', 'n - 1'])} else c)"
        if kind == 1:
            return f"({a} if {b} > 0.1 else c)"
        return [f"{a} * {b}", f"{a} + {b}", f"math.sin({a}) * c", f"{a} - 0.5 * {b}", f"{a}"][kind - 2]

    def statement(self, depth):
        r = self.random
        kind = r.random()
        if depth == 0 or kind < 0.25:
            return self.simple()
        if kind < 0.4:
            i = self.index(True)
            test = r.choice([f"{self.element()} > 0.2", f"{i} < t.size", f"0 <= {i} < n", "k < 3", f"{i} % 2 == 0"])
            lines = [f"if {test}:", *self.block(depth - 1)]
            return lines + (["else:", *self.block(depth - 1)] if r.random() < 0.4 else [])
        if kind < 0.47:
            return ["k = 0", f"while k < {r.choice(['n', 't.size', '3', 'x.size - 1'])}:",
                    *self.block(depth - 1), "    k += 1"]  # fmt: skip
        if kind < 0.53:
            return [f"for v, z in zip({r.choice(['x', 'part'])}, t):", "    s += 0.1 * v * z"]
        self.names += 1
        name = f"i{self.names}"
        outer = r.choice(self.loops) if self.loops else "1"
        turns = r.choice(TURNS).format(outer=outer)
        self.loops.append(name)
        body = self.block(depth - 1)
        if r.random() < 0.12:
            body += [f"    if {self.element()} > 0.6:", f"        {r.choice(['break', 'continue'])}", "    s += 0.1"]
            turns = turns.replace("prange", "range")
        self.loops.pop()
        return [f"for {name} in {turns}:", *body]

    def block(self, depth):
        lines = []
        for _ in range(self.random.randint(1, 2)):
            lines += self.statement(depth)
        return [f"    {line}" for line in lines]

    def simple(self):
        r = self.random
        kind = r.randint(0, 7)
        if kind < 3:
            return [f"s += {self.value()}"]
        if kind == 3:
            return [f"w[{self.index()}] = {self.value()}"]
        if kind == 4:
            return [f"x[{self.index()}] = 0.5 * {self.value()}"]
        if kind == 5:
            return [f"j = {self.index()}", f"s += c * {r.choice('xt')}[j]"]
        if kind == 6:
            return [f"u[{self.index()}, {self.index()}] += 0.1 * {self.value()}"]
        return [r.choice(["k += 1", f"k = {self.index(True)}", "w[1:] = x[1:n] * c", "x[:2] += t[:2]",
                          "s += np.sum(x[1:] * t[:-1])", "w[places[1]] = s", f"part[{self.index()}] = s"])]  # fmt: skip


def arguments(rng, random):
    """Arrays of 5 elements, less a few."""

    def less():
        return random.choice([0, 0, 0, 0, 1, 2, 3])

    n = 5 - (random.random() < 0.3) * random.randint(0, 2)
    x, t = rng.normal(size=5 - less()), rng.normal(size=5 - less())
    return x, t, rng.normal(size=(5 - less(), 5 - less())), rng.integers(-1, 5, 5 - less()), n, 0.37
