"""Random functions with loops, branches, jumps and writes in place."""

import linecache

import numba
import numpy as np


class Program:
    """Writes the source of a function ``f(x, u, a, n)`` of a vector, a matrix, a number and an integer.

    Values stay near 1, whatever is done to them: everything written goes through sine or tanh.
    """

    def __init__(self, random):
        self.random = random
        self.loops = []
        self.numbers = ["a"]
        self.vectors = ["x", "w"]
        self.flags = 0

    def source(self):
        lines = [f"w = {self.random.choice(['np.zeros(x.size)', 'x.copy()', 'np.ones_like(x)'])}", "s = 0.5", "p = a"]
        lines += ["v = 0.5 * u", "places = np.array([0, 2, 1, 3])"]
        self.numbers += ["s", "p"]
        lines += self.block(3, 4)
        if self.random.random() < 0.5:
            return "def f(x, u, a, n):\n" + "".join(f"    {line}\n" for line in lines + self.ending())
        lines.append(
            self.random.choice(
                ["return s", "return s, p", "return s + w[1] * p + np.sum(u * v) + np.dot(x, w)", "return p, w"]
            )
        )
        return "def f(x, u, a, n):\n" + "".join(f"    {line}\n" for line in lines)

    def block(self, depth, most):
        lines = []
        for _ in range(self.random.randint(1, most)):
            lines += self.statement(depth)
        return lines

    def index(self, size=5):
        r = self.random
        if r.random() < 0.05:
            return f"places[{r.randint(0, 3)}]"
        if self.loops and r.random() < 0.8:
            name, low, high = r.choice(self.loops)
            if r.random() < 0.1 and low >= 0 and high <= size:
                return self.roundabout(name, size)
            shift = r.randint(max(-low, -2), max(min(size - high, 2), 0)) if high <= size else 0
            if high + shift <= size and low + shift >= 0:
                return name if shift == 0 else f"{name} + {shift}" if shift > 0 else f"{name} - {-shift}"
        return str(r.randint(0, size - 1))

    def roundabout(self, name, size):
        """An index that is no variable with a constant: remainders, quotients, those that count from the end."""
        r = self.random
        length = r.choice(
            ["x.size", "len(w)", "w.shape[0]"] if size == 5 else ["u.shape[0]", "len(places)", "v.shape[1]"]
        )
        return r.choice(
            [
                f"({name} + {r.randint(1, 3)}) % {length}",
                f"{name} % n",
                f"{name} % n + 1",
                f"{name} // 2",
                f"{name} // 2 + 1",
                f"{length} - 1 - {name}",
                f"{name} - {length}",
                f"~{name}",
                f"min({name} + 1, {length} - 1)",
                f"max({name} - 1, 0)",
                f"{name} & 1",
                f"{name} ^ 1" if size == 4 else f"{name} % {length}",
                f"n - {name}",
                f"(2 * {name} + 1) % {length}",
                f"{name} * {name} % {length}",
            ]
        )

    def element(self):
        if self.random.random() < 0.6:
            return f"{self.random.choice(self.vectors)}[{self.index()}]"
        return f"{self.random.choice('uuv')}[{self.index(4)}, {self.index(4)}]"

    def atom(self):
        r = self.random.random()
        return (
            self.element()
            if r < 0.5
            else self.random.choice(self.numbers)
            if r < 0.85
            else str(self.random.choice([0.5, 1.5, 2.0]))
        )

    def value(self, depth=2):
        r = self.random
        if depth == 0:
            return self.atom()
        kind = r.randint(0, 7)
        a, b = self.value(depth - 1), self.value(depth - 1)
        return [f"{a} + {b}", f"{a} - {b}", f"({a}) * ({b})", f"math.sin({a})", f"np.tanh({a}) * {self.atom()}",
                f"({a}) / (2.0 + math.cos({b}))", f"(({a}) if {self.test()} else ({b}))",
                f"math.exp(-({a}) ** 2)"][kind]  # fmt: skip

    def test(self):
        r = self.random.random()
        if r < 0.4 and self.loops:
            return f"{self.random.choice(self.loops)[0]} % 2 == 0"
        return f"{self.atom()} {self.random.choice(['<', '>'])} {self.random.choice([0.1, 0.31, 0.77])}"

    def bounded(self, text):
        return f"{self.random.choice(['math.sin', 'np.tanh'])}({text})"

    def statement(self, depth):
        r = self.random
        kind = r.random()
        if r.random() < 0.04:
            return [f"places[{r.randint(0, 3)}] = (places[{r.randint(0, 3)}] + 1) % 4"]
        if depth == 0 or kind < 0.4:
            return self.simple()
        if kind < 0.45:
            return self.stencil() if r.random() < 0.5 else self.nest()
        if kind < 0.7:
            return self.loop(depth)
        if kind < 0.85:
            lines = [f"if {self.test()}:", *indent(self.block(depth - 1, 2))]
            return [*lines, "else:", *indent(self.block(depth - 1, 2))] if r.random() < 0.5 else lines
        if kind < 0.92:
            self.flags += 1
            q = f"q{self.flags}"
            ends = [f"    if {self.test()}:", "        break"] if r.random() < 0.5 else []
            return [
                f"{q} = 0",
                f"while {q} < {r.randint(1, 3)}:",
                f"    {q} += 1",
                *indent(self.block(depth - 1, 2)),
                *ends,
            ]
        return [r.choice(["x[1:] = x[:-1] * a", "w[:] = np.sin(x) + w", "w[1:-1] += 0.3 * (w[2:] - w[:-2])",
                          "u[1, :] = 0.5 * u[:, 2]", "x, w = w, x", "w[:3] *= u[0, 1:]", "x[:] = 0.3"])]  # fmt: skip

    def stencil(self):
        """A loop whose iterations are independent, and that reads neighbours."""
        r = self.random
        name = next(n for n in "ijklm" if n not in [v for v, _, _ in self.loops])
        low, high = r.choice([(1, 4), (0, 4), (2, 3), (1, 3)])
        source, target = r.choice([("x", "w"), ("w", "x"), ("u", "w"), ("x", "u")])
        rows = [v for v, a, b in self.loops if a >= 0 and b <= 4] + ["0", "2"]

        def at(array, shift):
            index = name if shift == 0 else f"{name} {'+-'[shift < 0]} {abs(shift)}"
            return f"{array}[{r.choice(rows)}, {index}]" if array == "u" else f"{array}[{index}]"

        shifts = range(-low, (4 if source == "u" else 5) - high + 1)
        terms = [f"{self.atom_apart()} * {at(source, r.choice(shifts))}" for _ in range(r.randint(1, 4))]
        body = [f"t0 = {' + '.join(terms)}"]
        if r.random() < 0.4:
            body += [f"t1 = math.sin({at(source, r.choice(shifts))} * t0)"]
            body += [f"if t0 > {r.choice([0.1, -0.2])}:", f"    t1 = t0 * {at(source, r.choice(shifts))}"]
            body += ["t0 = t0 - t1"]
        if r.random() < 0.4:
            body += [f"s += 0.1 * {self.bounded('t0 * p')}"]
        mine = at(target, 0)
        body += [r.choice([f"{mine} = {self.bounded('t0')}", f"{mine} += 0.1 * {self.bounded('t0')}",
                           f"{mine} = 0.5 * {mine} + 0.1 * t0"])]  # fmt: skip
        stop = r.choice([str(high), f"n + {high - 3}"])
        return [f"for {name} in {self.head()}({low}, {stop}):", *indent(body)]

    def nest(self):
        """Loops over both axes of a matrix that read neighbours, some of them by indices that count from the end."""
        r = self.random
        i, j = [n for n in "ijklm" if n not in [v for v, _, _ in self.loops]][:2]
        (a, b), (c, d) = r.choices([(1, 3), (0, 4), (1, 4), (2, 2), (0, 3)], k=2)
        source, target = r.choice([("u", "v"), ("v", "u")])

        def at(low, high, name):
            shift = r.randint(-max(low, 1), max(4 - high, 0))
            return name if shift == 0 else f"{name} {'+-'[shift < 0]} {abs(shift)}"

        terms = [f"{self.atom_apart()} * {source}[{at(a, b, i)}, {at(c, d, j)}]" for _ in range(r.randint(1, 5))]
        value = " + ".join(terms)
        body = [f"{target}[{i}, {j}] = 0.3 * {value}"]
        if r.random() < 0.4:
            body = [f"t0 = {value}", f"{target}[{i}, {j}] {r.choice(['=', '+='])} 0.2 * {self.bounded('t0')}"]
        body += r.choice([[], [], [f"s += 0.1 * {target}[{i}, {j}]"], [f"w[{i}] += 0.1 * {source}[{i}, {j}]"]])
        inner = [f"for {j} in range({c}, {r.choice([str(d), f'n + {d - 3}'])}):", *indent(body)]
        return [f"for {i} in {self.head()}({a}, {b}):", *indent(inner)]

    def head(self):
        return self.random.choice(["range", "range", "prange"])

    def ending(self):
        """Loops that add up totals and fill elements of their own, and what follows them."""
        r = self.random
        lines = ["total = 0.0"]
        self.numbers += ["q"]
        for _ in range(r.randint(1, 2)):
            self.loops = [("i", 0, 4)]
            body = [f"q = {self.atom()}" if r.random() < 0.8 else "q = q", f"t0 = {self.value(1)}"]
            for _ in range(r.randint(0, 2)):
                self.loops.append(("j", 0, 4))
                inner = [r.choice([f"q = {self.bounded(self.value(1))}", f"t1 = {self.bounded(self.value(1))}",
                                   f"w[i] += 0.1 * {self.value(1)}", f"total += 0.1 * {self.bounded('q')}",
                                   f"x[j] = {self.bounded('q')}", f"s += 0.1 * {self.value(1)}"])
                         for _ in range(r.randint(1, 2))]  # fmt: skip
                inner += [f"q = q * {self.atom()} * 0.5"]
                if r.random() < 0.3:
                    inner = [f"if {self.test()}:", *indent(inner)]
                self.loops.pop()
                body += [f"for j in range({r.choice(['4', 'i', 'n'])}):", *indent(inner)]
            body += [
                r.choice(["total += q * t0", "w[i] = q", "w[i] = 0.5 * w[i] + t0", "u[1, i] = t0 * q", "p = p + q"])
            ]
            if r.random() < 0.3:
                body += [f"if t0 < {self.atom()}:", "    t2 = q * t0", "    total -= 0.2 * t2"]
            lines += ["q = 0.3", "for i in range(4):", *indent(body)]
            if r.random() < 0.2:
                lines += [r.choice(["total = 0.5 * total", "w[2] = total", "p = 0.4", "total = total * total"])]
        lines += r.choice([[], [], ["total = 0.5 * total"], ["x[1] = 0.0"], ["total = total * a"]])
        return [*lines, r.choice(["return total", "return total, w", "return 0.5 * total, p * s"])]

    def atom_apart(self):
        return self.random.choice(["0.3", "a", "p", "0.2"])

    def simple(self):
        r = self.random
        target = r.choice([r.choice(["s", "p"]), self.element(), f"t{r.randint(0, 2)}"])
        if target[0] == "t" and target[1:].isdigit():
            lines = [f"{target} = {self.bounded(self.value())}"]
            lines += [f"{self.element()} = {self.bounded(f'{target} + {self.value(1)}')}"]
            return lines + ([f"{target} = {self.bounded(target)} * s", f"p = {target}"] if r.random() < 0.4 else [])
        kind = r.random()
        if kind < 0.3:
            return [f"{target} += 0.1 * {self.bounded(self.value())}"]
        if kind < 0.4:
            return [f"{target} *= {self.bounded(self.value(1))}"]
        return [f"{target} = {self.bounded(self.value())}"]

    def loop(self, depth):
        r = self.random
        name = next(n for n in "ijklm" if n not in [v for v, _, _ in self.loops])
        outer = [v for v in self.loops if v[1] >= 0]
        kept = list(self.loops)
        shadowed = r.choice(outer) if outer and r.random() < 0.1 else None
        if shadowed is not None:  # the same variable, which then is what it is here
            name = shadowed[0]
            self.loops.remove(shadowed)
            outer.remove(shadowed)
        target, value = name, f"e{len(self.loops)}"
        if r.random() < 0.2:  # what counts in other loops is a number that is set here
            target, head, bounds = r.choice([(f"{name}, {value}", "enumerate(u[2])", (0, 4)),
                                             (f"{value}, {name}", "zip(v[1], range(1, 4))", (1, 4)),
                                             (f"{name}, {value}", "np.ndindex((3, 2))", (0, 3)),
                                             (f"({value}, {name}), q0", "np.ndenumerate(v[:2])", (0, 4)),
                                             (name, "(2, 0, 1)", (0, 3))])  # fmt: skip
        elif outer and r.random() < 0.3:
            v, low, _ = r.choice(outer)
            head, bounds = f"range({v}, 4)", (low, 4)
        else:
            head, bounds = r.choice([("range(4)", (0, 4)), ("range(1, 4)", (1, 4)), ("range(3, -1, -1)", (0, 4)),
                                     ("range(0, 4, 2)", (0, 4)), ("range(n)", (0, 3)),
                                     ("range(3, 0, -2)", (0, 4)), ("range(n & 1, 4)", (1, 4)),
                                     ("range(3 if n > 2 else 2, -1, -1)", (0, 4)),
                                     ("range(0, 4 if a < 9.0 else 2)", (0, 4))])  # fmt: skip
        if shadowed is not None and not shadowed[1] <= bounds[0] <= bounds[1] <= shadowed[2]:
            bounds = shadowed[1:]  # or it could be too large in the next iteration of a loop around
            target, head = name, f"range({bounds[0]}, {bounds[1]})"
        self.loops.append((name, *bounds))
        self.numbers += [value] * (value in target)
        body = self.block(depth - 1, 3)
        if r.random() < 0.25:
            jump = r.choice(["continue", "break"])
            at = r.randint(0, len([line for line in body if not line.startswith((" ", "else", "except"))]))
            body = insert(body, at, [f"if {self.test()}:", f"    {jump}"])
        self.loops = kept
        self.numbers = [n for n in self.numbers if n != value]
        if target == name and head.count(", ") < 2 and "break" not in str(body):
            head = head.replace("range", self.head())
        after = ["else:", *indent(self.block(depth - 1, 2))] if r.random() < 0.15 else []
        return [f"for {target} in {head}:", *indent(body), *after]


class Trying(Program):
    """A program with try, whose bodies raise: themselves, in a function that they call, by a division, by an index."""

    def source(self):
        risky = "def f(x, u, a, n):\n    def risky(v):\n        if v > 0.4:\n            raise ValueError('large')\n"
        risky += "        if v < -0.6:\n            raise RuntimeError('small')\n        return 0.7 * v * v\n\n"
        return super().source().replace("def f(x, u, a, n):\n", risky, 1)

    def statement(self, depth):
        return self.attempt(depth) if depth and self.random.random() < 0.25 else super().statement(depth)

    def attempt(self, depth):
        r = self.random
        body = self.block(depth - 1, 3)
        for _ in range(r.randint(1, 2)):
            at = r.randint(0, len([line for line in body if not line.startswith((" ", "else", "except"))]))
            body = insert(body, at, self.error())
        if r.random() < 0.3:
            name = next(n for n in "ijklm" if n not in [v for v, _, _ in self.loops])
            body = [f"for {name} in range(3):", *indent(body)]
        if self.loops and r.random() < 0.2:
            body += [r.choice(["continue", "break"])] if r.random() < 0.4 else [f"if {self.test()}:", "    continue"]
        heads = r.choice([["except Exception:"], ["except:"], ["except (LookupError, ArithmeticError, ValueError):"],
                          ["except ValueError as err:", "except (ZeroDivisionError, RuntimeError):"],
                          ["except ZeroDivisionError:", "except Exception:"]])  # fmt: skip
        lines = ["try:", *indent(body)]
        for head in heads:
            handler = ["pass"] if r.random() < 0.2 else self.block(depth - 1, 2)
            lines += [head, *indent(handler)]
        if (len(heads) == 2 and heads[0].startswith("except V")) or heads[0].startswith("except ("):
            lines = [*indent(lines), "except (IndexError, RuntimeError):", "    s = s - 0.2"]
            lines = ["try:", *lines]
        elif r.random() < 0.2:
            lines += ["else:", *indent(self.block(depth - 1, 2))]
        return lines

    def error(self):
        """Statements that may raise an error."""
        r = self.random
        counter = r.choice(self.loops)[0] if self.loops else "n"
        return r.choice([
            [f"if {self.test()}:", f"    raise {r.choice(['ValueError', 'RuntimeError'])}('chosen')"],
            [f"s = 0.5 * s + risky({self.bounded(self.value(1))})"],
            [f"w[1] = risky({self.bounded('s')}) if {self.test()} else 0.3 * p"],
            [f"p = 0.5 * p + 0.1 / ({counter} - {r.randint(0, 3)})"],
            [f"s = 0.5 * s + 0.1 * ({counter} % ({counter} - {r.randint(0, 3)}))"],
            [f"{r.choice(['s', 'p'])} = 0.3 * x[{counter} + {r.randint(1, 4)}]"],
            [f"w[{counter} + 3] = {self.bounded(self.value(1))}"],
            [f"s = 0.2 * math.sqrt({self.bounded('s')})"],
            [f"p = p + 0.1 * math.asin({self.value(1)})"],
        ])  # fmt: skip


class Recursive(Program):
    """A program that calls functions that call themselves, to a depth that is a constant."""

    def source(self):
        r = self.random
        self.depth = 0
        value = f"0.7 * v * again(k - 1, {r.choice(['v', 'math.sin(v + 0.1 * k)', '0.5 * v'])}) + 0.1 * p"
        if r.random() < 0.5:
            value += " - 0.3 * again(k - 2, p * v)"
        leaf = r.choice(["math.sin(v)", "v * p", "p"])
        recursion = f"    def again(k, v):\n        if k <= {r.randint(0, 1)}:\n            return {leaf}\n"
        recursion += f"        return {value}\n\n" if r.random() < 0.6 else (
            f"        if v > 0.2:\n            return {value}\n        return 0.5 * again(k - 1, v * v)\n\n"
        )  # fmt: skip
        return super().source().replace("    p = a\n", f"    p = a\n{recursion}", 1)

    def statement(self, depth):
        r = self.random
        if r.random() < 0.15:
            return [f"s = 0.5 * s + 0.2 * math.sin(again({r.randint(0, 4)}, {self.bounded(self.value(1))}))"]
        return super().statement(depth)


def insert(lines, at, new):
    """`new` before the statement number `at` of a block."""
    starts = [k for k, line in enumerate(lines) if not line.startswith((" ", "else", "except"))] + [len(lines)]
    return lines[: starts[at]] + new + lines[starts[at] :]


def indent(lines):
    return [f"    {line}" for line in lines]


def function(source, names=None, number=[0], name="f"):  # noqa: B006 (each function has a file name of its own)
    number[0] += 1
    filename = f"<random loops {number[0]}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    import math

    namespace = {"np": np, "math": math, "prange": numba.prange, **(names or {})}
    exec(compile(source, filename, "exec"), namespace)
    return namespace[name]


def arguments(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=5), rng.normal(size=(4, 4)), 0.37, 3
