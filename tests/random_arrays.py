"""Random functions as in :mod:`random_loops`, with parts of arrays by name, whole-array expressions, sums along axes,
products, loops over arrays, calls, tuples and jumps out of nested branches."""

import numpy as np
from random_loops import Program, indent

RAMP = np.array([0.013, -0.021, 0.034, 0.055, -0.089])
GRID = np.array([-0.9, -0.31, 0.12, 0.53, 1.1])
PLACES, TWICE = np.array([3, 0, 4]), np.array([2, 0, 2])


def blend(p, q):
    """A number of two."""
    if p > q:
        return np.sin(p) * q
    r = p - q
    return r * np.cos(q)


def stir(v, c):
    """Writes the array, and may leave early."""
    for i in range(1, len(v)):
        v[i] = np.tanh(v[i] + c * v[i - 1])
        if v[i] > 0.9:
            return v[i]
    v[0] += 0.1 * c
    return c


def fresh(v, c=0.5):
    """A new array."""
    out = np.zeros_like(v)
    for i, e in enumerate(v):
        out[i] = np.sin(e) * c
    if c > 0.3:
        out = out * 0.9 + 0.1 * v
    return out


def both(v, w):
    """A number, an array, and a part of an argument."""
    t = v + 0.5 * w
    return np.sum(t) * 0.1, np.sin(t), v[1:]


def trail(v, w):
    """Names as loops that are made have them; in some iterations they are what they were before."""
    s = 0.0
    for e, d in zip(v, w):
        if e > 0.12 or s == 0.0:
            k, k1, k2, k3, k4, k5 = 1, 2, 3, 4, 5, 6
        s += 0.02 * e * (k + k1 - k2) - 0.02 * d * (k3 - k4 + k5)
        k += 1
    return s


def first(v, limit, default=-1):
    """A place, or a constant: what is tested afterwards is not known before."""
    for i, e in enumerate(v):
        if e > limit:
            return i
    return default


def settle(v, c):
    """Adds to its argument in loops."""
    for _ in range(2):
        v += 0.1 * c * v[::-1]
        v *= 0.9
    return v[0] * c


NAMES = {
    "RAMP": RAMP,
    "GRID": GRID,
    "PLACES": PLACES,
    "TWICE": TWICE,
    "blend": blend,
    "stir": stir,
    "fresh": fresh,
    "both": both,
    "trail": trail,
    "settle": settle,
    "first": first,
}


class ArrayProgram(Program):
    def __init__(self, random):
        super().__init__(random)
        self.count = 0
        self.deep = 0
        self.result = random.choice(["return s", "return s, p", "return p, s * w[2]", "return s, w.copy(), u[1]"])

    def source(self):
        lines = [
            "w = " + self.random.choice(["np.zeros(x.size)", "x.copy()", "x[::-1] * a"]),
            "s = 0.5",
            "p = a",
            "c = (s, a)",
        ]
        lines += ["v = 0.5 * u", "z = x * 0.5", "old = z", "places = np.array([0, 2, 1, 3])"]
        lines += ["def inner(t):", "    return np.sin(t) * a + 0.1 * p"]
        self.numbers += ["s", "p", "c[0]", "c[1]"]
        lines += self.block(3, 5)
        lines.append(self.result)
        return "def f(x, u, a, n):\n" + "".join(f"    {line}\n" for line in lines)

    def block(self, depth, most):
        self.deep += 1
        lines = super().block(depth, most)
        self.deep -= 1
        return lines

    def name(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def vector(self, size, depth=1):
        """An expression of `size` elements."""
        r = self.random
        i, j = self.index(4), self.index(4)
        views = {
            5: ["x", "w", "x[::-1]", "w[:]", "z", "old"],
            4: [f"u[{i}]", f"u[:, {j}]", "x[1:]", "w[:-1]", f"u.T[{i}]", f"u[{i}, ::-1]", "w[1:]"],
            3: ["x[::2]", "w[1:4]", f"u[{i}, 1:]", f"u[:3, {j}]", "x[-3:]", f"u[1:, 1:][{r.randint(0, 2)}]",
                "w[4:1:-1]", "w[TWICE]", "z[PLACES]"],
        }  # fmt: skip
        if depth == 0 or r.random() < 0.4:
            return r.choice(views[size])
        a, b = self.vector(size, depth - 1), self.vector(size, depth - 1)
        return r.choice(
            [f"{a} * {b}", f"{a} + {self.atom()} * {b}", f"np.where({a} > 0.2, {b}, 0.3 * {a})", f"np.sin({a})",
             f"({a}) / (2.0 + np.cos({b}))", f"fresh({a})", f"(u[:{size}, :{size}] @ {a})" if size < 5 else f"-{a}",
             f"np.dot({a}, u[1:, :])[:3]" if size == 3 else f"{a} * a", f"np.maximum({a}, 0.1 * {b} + RAMP[:{size}])",
             f"np.cumsum({a})", f"np.outer({a}, {b})[1]",
             f"u.sum(axis=1)[:{size}]" if size < 5 else f"fresh({a}, c=0.2)", f"np.roll({a}, {r.randint(-2, 2)})",
             f"np.sort({a} + RAMP[:{size}])", f"np.interp({a}, GRID[:{size}], {b})",
             f"({a}).clip(-0.43, {self.atom()})"]
        )  # fmt: skip

    def number(self):
        r = self.random
        k = r.choice([3, 4, 5])
        v, z = self.vector(k), self.vector(k)
        return r.choice(
            [f"np.sum({v})", f"np.dot({v}, {z})", f"({v}).mean()", f"np.max({v} + RAMP[:{k}])", f"np.var({v})",
             f"np.linalg.norm({v} + RAMP[:{k}])", f"np.prod(np.cos({v}))",
             f"({v} + RAMP[:{k}])[np.argmin({z} + RAMP[:{k}])]",
             f"trail({v}, {z})", f"blend(*({self.atom()}, {self.atom()}))",
             f"blend({self.atom()}, {self.atom()})", f"inner({self.atom()})", f"np.trace(u) + {self.atom()}",
             f"(blend(p, s) if {self.test()} else {self.atom()})", f"np.max(u + RAMP[1:], axis={r.randint(0, 1)})[1]",
             f"np.logaddexp({self.atom()}, {self.atom()})", f"np.std(u + RAMP[1:], axis={r.randint(0, 1)})[2]",
             f"v.reshape(2, 8)[1, {r.randint(0, 7)}]", f"np.average({v}, weights=2.0 + np.cos({z}))"]
        )  # fmt: skip

    def statement(self, depth):
        r = self.random
        if r.random() < 0.4:
            return super().statement(depth)
        k = r.choice([3, 4, 5])
        if r.random() < 0.25:
            return self.picks()
        if r.random() < 0.12:
            return self.reused(k)
        if r.random() < 0.04:
            return self.lengths()
        kind = r.random()
        if kind < 0.2:
            return [f"{r.choice(['s', 'p'])} = {self.bounded(self.number())}"]
        if kind < 0.4:
            return [f"{self.target(k)} = {r.choice(['np.sin', 'np.tanh'])}({self.vector(k, 2)})"]
        if kind < 0.45:
            return [f"{self.target(k)} {r.choice(['+=', '*='])} 0.3 * np.sin({self.vector(k)})"]
        if kind < 0.55:
            return [f"w = np.tanh({self.vector(5, 2)})"]
        if kind < 0.65:
            v = self.name("v")
            return [f"{v} = {self.target(k)}", f"{v}[{r.randint(0, k - 1)}] = {self.bounded(self.atom())}",
                    f"{v} += 0.1 * {self.vector(k)}",
                    f"s = {self.bounded(f'{v}[{r.randint(-k, k - 1)}] + s')}"]  # fmt: skip
        if kind < 0.75:
            return self.call(k)
        if kind < 0.8:
            return [f"c = ({self.bounded(self.atom())}, {self.bounded(f'c[0] + {self.atom()}')})"]
        if kind < 0.95 and depth > 0:
            return self.over(depth, k)
        if self.deep > 1 and depth > 0:
            leave = r.choice([self.result, "break", "continue"]) if self.loops else self.result
            return [f"if {self.test()}:", f"    if {self.test()}:", f"        {leave}", *indent(self.simple())]
        return [r.choice(["x[:-1] = x[1:] * w[:-1]", "w[1:] -= 0.2 * w[:-1]", "u[1:-1, :] *= np.cos(u[:-2, :])",
                          "u[:] = np.tanh(u.T + x[:4])", "x[1:4] = u.sum(axis=0)[1:] * 0.2",
                          "w[::2] = x[::-2] * w[2]", "u = np.tanh(u.T + 0.1 * u)", "u = np.sin(u)"])]  # fmt: skip

    def picks(self):
        """What masks and indices pick, elements that change places, names that stand for other arrays."""
        r = self.random
        i, j, v = self.index(), self.index(), self.name("v")
        test, limit = self.test(), r.choice([0.1, 0.27, -0.2])
        return r.choice(
            [[f"x[{i}], x[{j}] = x[{j}], x[{i}]"], [f"w[{i}] = x[{j}] = {self.bounded(self.atom())}"],
             [f"{v} = {self.vector(5)} > {limit}", f"x[{v}] *= 0.5"], [f"w[x > {limit}] = 0.3 * x[x > {limit}]"],
             [f"x[PLACES] += 0.1 * {self.vector(3)}"], [f"w[TWICE] = 0.5 * {self.vector(3)}"],
             [f"{v} = np.tanh({self.vector(5)})", f"if {test}:", f"    z = {v}"], ["old = z"],
             [f"{v} = np.tanh({self.vector(5)})", f"{v}[{i}] *= 0.5", f"if {test}:", f"    z = {v}",
              f"    z[{j}] = {self.bounded(self.atom())}"],
             [f"{v} = np.tanh({self.vector(5)})", f"part = {v}[1:]", f"part[2] *= {self.bounded('p')}", f"z = {v}"],
             [f"{v} = [{self.atom()}, 0.5, p]", f"s = {self.bounded(f'{v}[0] * {v}[-1] + s')}"], ["w.sort()"],
             [f"{v} = first({self.vector(5)}, {limit}{r.choice(['', ', 0', ', default=2'])})",
              f"if {v} {r.choice(['< 0', '== 0', '> 1', '!= 2'])}:", f"    p = {self.bounded(self.atom())}",
              f"s += 0.1 * z[{v}] * p"],
             [f"z, old = np.tanh({self.vector(5)}), z"],
             [f"z = np.sin(z) + 0.1 * {self.vector(5)}"], [f"if {test}:", f"    z = np.cos({self.vector(5)})"],
             [f"for {v} in np.where(x > {limit})[0]:", f"    s = {self.bounded(f's + x[{v}] * z[{v}]')}"],
             [f"p = {self.bounded(f'z[np.argmax({self.vector(5)} + RAMP)]')}"]]
        )  # fmt: skip

    def reused(self, k):
        """One name for one thing after another: arrays of several lengths, parts of others, numbers, tuples."""
        r = self.random
        m = r.choice(["same", "again"])
        made, used = r.choice(
            [([f"{m} = np.sin({self.vector(k)})"],
              [f"{m}[1] *= p", f"s += 0.1 * {m}[0]", f"{self.target(k)} = {m}", f"w[0] = {m}[0]; {m} = 0.5 * {m}"]),
             ([f"{m} = np.empty({k})", f"for q in range({k}):", f"    {m}[q] = {self.bounded('s + 0.3 * q')}"],
              [f"{m} += 0.1 * {self.vector(k)}", f"p = {self.bounded(f'np.sum({m})')}", f"w[:2] = {m}[1], p"]),
             ([f"{m} = {self.bounded(self.atom())}"], [f"{m} += 0.2 * s", f"p = {self.bounded(m)}", f"w[1] = {m}"]),
             ([f"{m} = u * {self.atom()}"], [f"{m}[2] = {m}[:, 1]", f"u[1] += 0.1 * {m}[2]", f"u[2] = {m}.sum(0)"]),
             ([f"{m} = (s, 0.5 * p)"], [f"s = {self.bounded(f'{m}[0] * {m}[1]')}", f"p += 0.1 * {m}[1]"]),
             ([f"{m} = {self.target(k)}"], [f"{m}[0] = {self.bounded(self.atom())}", f"s -= 0.1 * {m}[1] * s"])]
        )  # fmt: skip
        uses = r.choices(used, k=r.randint(1, 3))
        head = r.choice(["", "", f"if {self.test()}:", "for q in range(2):"])
        return [*made, *([head, *indent(uses)] if head else uses)]

    def lengths(self):
        """Arrays that have another length in each iteration."""
        r, v = self.random, self.name("v")
        made = r.choice([f"np.tanh(x[q:] + w[:-q] * {self.atom()})", f"np.cumsum(w[:q]) * {self.atom()}",
                         "np.full(q, 1.0) * p", f"np.outer(x[q:], w[:q])[-1] * {self.atom()}",
                         "np.concatenate((x[q:], w[:q][::-1], x[:1]))"])  # fmt: skip
        used = [f"{v}[-1] *= 0.5 * p", f"s = {self.bounded(f'{v}[-1] * {v}[0] + s')}", f"p += 0.1 * np.sin({v}).sum()",
                f"x[-1] = {self.bounded(f'{v}[len({v}) // 2] + s')}", f"w[:q] += 0.1 * np.sin(np.flip({v})[-1])",
                f"{v}[0] += s", f"for e9 in {v}[::-1]:\n    s = {self.bounded('s + e9')}"]  # fmt: skip
        lines = "\n".join(r.choices(used, k=r.randint(1, 4))).split("\n")
        return [f"for q in range(1, {r.choice(['4', 'n', '5'])}):", *indent([f"{v} = {made}", *lines])]

    def target(self, size):
        i, j = self.index(4), self.index(4)
        return self.random.choice(
            {5: ["x[:]", "w[:]", "w[::-1]"], 4: [f"u[{i}]", f"u[:, {j}]", "x[1:]", "w[:-1]"],
             3: ["x[::2]", "w[1:4]", f"u[{i}, 1:]", f"u[:3, {j}]", "w[-3:]"]}[size]
        )  # fmt: skip

    def call(self, k):
        r = self.random
        q, v, z = self.name("y"), self.name("v"), self.name("z")
        return r.choice(
            [[f"{q} = stir({self.target(k)}, {self.atom()})", f"p = {self.bounded(q)}"],
             [f"{v} = fresh({self.vector(k)})", f"{self.target(k)} = {v} * 0.5", f"s += 0.1 * {v}[1]"],
             [f"{q}, {v}, {z} = both({self.target(k)}, {self.vector(k)})", f"s = {self.bounded(q)}",
              f"{z}[0] = 0.5 * {v}[1]"],
             [f"s = {self.bounded(f's + settle({self.target(k)}, {self.atom()})')}"],
             [f"stir({self.target(k)}, {self.bounded(self.atom())})"]]
        )  # fmt: skip

    def over(self, depth, k):
        r = self.random
        v, z, m = self.name("b"), self.name("d"), self.name("m")
        head, names = r.choice(
            [(f"for {v} in {self.target(k)}:", [v]), (f"for {m}, {v} in enumerate({self.vector(k)}):", [v]),
             (f"for {v}, {z} in zip({self.target(k)}, {self.vector(4)}):", [v, z]),
             (f"for {v} in u:", [f"{v}[1]", f"{v}[{r.randint(0, 3)}]"])]
        )  # fmt: skip
        self.numbers += names
        self.loops.append((m, -9, -9))  # a loop, but no index
        body = self.block(depth - 1, 2)
        self.loops.pop()
        del self.numbers[-len(names) :]
        if "u:" in head:
            body = [f"{v}[2] = {self.bounded(self.atom())}", *body]
        return [head, *indent([f"s = {self.bounded(f's + {names[0]}')}", *body])]

    def index(self, size=5):
        kept = self.loops
        self.loops = [loop for loop in kept if loop[1] >= 0]
        found = super().index(size)
        self.loops = kept
        return found

    def test(self):
        kept = self.loops
        self.loops = [loop for loop in kept if loop[1] >= 0]
        found = super().test()
        self.loops = kept
        return found
