"""Random functions in which tuples are assigned side by side: of numbers, of arrays, named and nested ones."""

import textwrap
from collections import namedtuple
from random import Random

import numpy as np

Point = namedtuple("Point", "x y")


def mixed(a, b):
    return (b[0] * 0.9, a[1]), (a[0], b[1])


def ordered(a, b):
    if a[0] > b[0]:
        a, b = b, a
    return a, b


def exchanged(a, b):
    if a[0] > b[0]:
        t = a
        a = b
        b = t
    return a[0] * 0.7, b[1] + 0.1


def early(a, b):
    for _ in range(2):
        a, b = (b[1], a[0]), a
        if a[0] < 0.2:
            return a
    return b


NAMES = {"np": np, "Point": Point, "mixed": mixed, "ordered": ordered, "exchanged": exchanged, "early": early}
#: The kinds of the variables.
KINDS = {
    **dict.fromkeys("abc", "pair"), **dict.fromkeys("pq", "point"), **dict.fromkeys("st", "number"), "n": "nested",
    **dict.fromkeys("uw", "with array"),
}  # fmt: skip
BEGIN = """a, b, c = (v[0], v[1]), (v[2], v[3]), (v[1], 0.3)
p, q = Point(v[0], v[2]), Point(v[3], 0.5)
n = ((v[0], v[2]), (v[1], v[3]))
s, t = v[0] * 0.5, 0.2
u, w = (v[0], v * 0.5), (v[1], v[::-1] * 0.7)"""
END = """r = np.sin(a[0]) + 0.7 * np.cos(a[1]) + 0.4 * np.sin(b[0]) - np.cos(b[1]) + np.sin(c[0] - c[1])
r += np.sin(p.x) * 0.7 + np.cos(p.y) + np.sin(q.x - q.y) + np.sin(n[0][0] + 2 * n[0][1]) + np.cos(n[1][0] - n[1][1])
r += np.sin(s) * 0.5 + np.sin(t) + np.sin(u[0]) + np.sum(np.sin(u[1]) * v)
return r + np.sum(np.sin(w[1] * w[0]) * v[::-1])"""


def indented(lines: str) -> str:
    return textwrap.indent(lines, "    ")


class TupleProgram:
    def __init__(self, random: Random) -> None:
        self.random = random

    def source(self) -> str:
        body = self.block(3 + self.random.randrange(4), 0, False)
        return "def f(v):\n" + indented(f"{BEGIN}\n{body}\n{END}")

    def name(self, kind: str) -> str:
        return self.random.choice([n for n, k in KINDS.items() if k == kind])

    def number(self) -> str:
        """An item, or a number."""
        part = self.random.randrange(2)
        return self.random.choice([
            f"{self.name('pair')}[{part}]", f"{self.name('point')}.{'xy'[part]}", f"n[{part}][{1 - part}]",
            self.name("number"), f"v[{self.random.randrange(4)}]", f"{self.name('with array')}[0]",
        ])  # fmt: skip

    def expression(self) -> str:
        one, two = self.number(), self.number()
        return self.random.choice([one, f"{one} * 0.9", f"np.sin({one})", f"{one} + 0.5 * {two}"])

    def value(self, kind: str) -> str:
        name, one, two = self.name(kind), self.expression(), self.expression()
        match kind:
            case "number":
                return one
            case "pair":
                calls = [f"{f}({self.name('pair')}, {self.name('pair')})" for f in ("exchanged", "early")]
                made = f"({one}, {two})"
                return self.random.choice([name, name, made, made, "n[1]", f"{name}[::-1]", *calls])
            case "point":
                made = f"Point({one}, {two})"
                return self.random.choice([name, made, f"{name}._replace(y={one})", f"Point(*{self.name('pair')})"])
            case "nested":
                return self.random.choice([name, "(n[1], n[0])", f"({self.value('pair')}, {self.value('pair')})"])
        return self.random.choice([name, f"({one}, {name}[1] * 0.9)", f"({one}, {self.name(kind)}[1])"])

    def assignment(self) -> str:
        kind = self.random.choice(["pair", "pair", "point", "with array"])
        alike = [n for n, k in KINDS.items() if k == kind]
        match self.random.randrange(6):
            case 0:
                return f"{', '.join(alike)} = {', '.join([*alike[1:], alike[0]])}"
            case 1:
                x, y = self.random.sample("abc", 2)
                called = self.random.choice(["mixed", "ordered"])
                return f"{x}, {y} = {called}({self.name('pair')}, {self.name('pair')})"
            case 2:
                x, y = self.random.sample("abc", 2)
                return f"({x}, s), {y} = ({self.value('pair')}, {self.expression()}), {self.value('pair')}"
        names = self.random.sample(sorted(KINDS), self.random.choice([1, 2, 2, 3]))
        return f"{', '.join(names)} = {', '.join(self.value(KINDS[n]) for n in names)}"

    def block(self, count: int, depth: int, in_loop: bool) -> str:
        return "\n".join(self.statement(depth, in_loop) for _ in range(count))

    def statement(self, depth: int, in_loop: bool) -> str:
        test, kind = f"if {self.number()} > {self.random.choice([-0.4, 0.1, 0.6])}:", self.random.random()
        if depth < 2 and kind < 0.15:
            body, other = (indented(self.block(n, depth + 1, in_loop)) for n in (2, 1))
            return f"{test}\n{body}\nelse:\n{other}"
        if depth < 2 and kind < 0.3:
            return f"for _ in range({self.random.randint(2, 4)}):\n{indented(self.block(2, depth + 1, True))}"
        return f"{test} {self.random.choice(['break', 'continue'])}" if in_loop and kind < 0.35 else self.assignment()
