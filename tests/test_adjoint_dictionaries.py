"""Dictionaries that change: items set under keys that the source shows, in loops, branches and functions."""

import math
from collections import defaultdict

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([1.3, 2.1, 0.7, 1.9])
TABLE = {1: 0.5, 2: 0.25, 3: 2.0}


def helper(p):
    return p["a"] * p["b"] ** 2


def setdef(x):
    d = {}
    for i in range(len(x)):
        d.setdefault("even" if i % 2 == 0 else "odd", []).append(x[i])
    return sum(v * v for v in d["even"]) + 3 * sum(d["odd"])


def dictcomp(x):
    names = ["a", "b", "c", "d"]
    d = {n: x[i] ** 2 for i, n in enumerate(names)}
    return d["a"] * d["b"] + d["c"] * d["d"]


def dictvary(x):
    aic = {}
    for kind in ("exp", "gamma", "lin"):
        if kind == "exp":
            v = x[0] * 2
        elif kind == "gamma":
            v = x[1] ** 2
        else:
            v = x[2] + x[3] * 2
        aic[kind] = v
    best = min(aic.values())
    return best + aic["gamma"]


def dictmin(x):
    aic = {}
    for kind in ("exp", "gamma", "lin"):
        if kind == "exp":
            aic[kind] = x[0] * 2
        elif kind == "gamma":
            aic[kind] = x[1] ** 2
        else:
            aic[kind] = x[2] + x[3] * 2
    best = min(aic, key=aic.get)
    return aic[best] * x[1]


def zipdict(x):
    p = dict(zip(("a", "b", "c", "d"), x))
    return p["a"] * p["b"] - p["c"] / p["d"]


def itemsloop(x):
    p = {"a": x[0], "b": x[1], "c": x[2] * x[3]}
    s = 0.0
    for name, v in p.items():
        w = 2.0 if name == "b" else 1.0
        s += w * v**2
    return s


def counts(x):
    d = {}
    labels = ["u", "v", "u", "w"]
    for lab, v in zip(labels, x):
        d[lab] = d.get(lab, 0.0) + v * v
    return d["u"] * d["v"] + d["w"]


def dd(x):
    d = defaultdict(float)
    for i, lab in enumerate(["a", "b", "a", "c"]):
        d[lab] += x[i] ** 2
    return d["a"] * d["b"] + math.sqrt(d["c"])


def ddlist(x):
    d = defaultdict(list)
    for i in range(len(x)):
        d["hi" if x[i] > 1.5 else "lo"].append(x[i])
    return sum(d["hi"]) * 2 + sum(v**2 for v in d["lo"])


def ddrun(x):
    d = defaultdict(float)
    for i in range(len(x)):
        key = "hi" if x[i] > 1.5 else "lo"
        d[key] += x[i] ** 2
    return d["hi"] - 3 * d["lo"]


def getrun(x):
    d = {}
    for i in range(len(x)):
        if x[i] > 2:
            key = "hi"
        elif x[i] > 1:
            key = "mid"
        else:
            key = "lo"
        d[key] = d.get(key, 0.0) + x[i] ** 2
    return d["hi"] - 3 * d["lo"] + d["mid"]


def state(x):
    s = {"S": 0.9, "I": 0.1, "R": 0.0}
    for _ in range(5):
        inf = x[0] * s["S"] * s["I"]
        rec = x[1] * s["I"]
        s = {"S": s["S"] - 0.1 * inf, "I": s["I"] + 0.1 * (inf - rec), "R": s["R"] + 0.1 * rec}
    return s["R"] * x[2] + s["S"]


def state2(x):
    s = {"S": 0.9, "I": 0.1, "R": 0.0}
    for _ in range(5):
        d = {"S": -x[0] * s["S"] * s["I"], "I": x[0] * s["S"] * s["I"] - x[1] * s["I"], "R": x[1] * s["I"]}
        for k in s:
            s[k] = s[k] + 0.1 * d[k]
    return s["R"] * x[2] + s["S"]


def state3(x):
    s = {"S": 0.9, "I": 0.1, "R": 0.0}
    for _ in range(5):
        d = {"S": -x[0] * s["S"] * s["I"], "I": x[0] * s["S"] * s["I"] - x[1] * s["I"], "R": x[1] * s["I"]}
        s = {k: v + 0.1 * d[k] for k, v in s.items()}
    return sum(v**2 for v in s.values())


def fkeys(x):
    p = {}
    for i in range(4):
        p[f"w{i}"] = x[i] * (i + 1)
    tot = 0.0
    for i in range(3):
        tot += p[f"w{i}"] * p[f"w{i + 1}"]
    return tot


def fkeys2(x):
    p = {}
    for i in range(4):
        key = "w" + str(i)
        p[key] = x[i] * (i + 1)
        if i > 0:
            p[key] += p["w" + str(i - 1)]
    return p["w3"] + len(p)


def inttab(x):
    table = {(i, j): x[i] * x[j] for i in range(3) for j in range(3)}
    s = 0.0
    for i in range(3):
        for j in range(3):
            if i != j:
                s += table[i, j] / table[i, i]
    return s


def memo2(x):
    memo = {0: x[0], 1: x[1]}
    for k in range(2, 7):
        memo[k] = memo[k - 1] * 0.5 + x[2] * memo[k - 2]
    return memo[6]


def closured(x):
    p = {}
    p["k"] = x[0]
    p["c"] = x[1] * 2

    def rhs(y):
        return -p["k"] * y + p["c"]

    y = x[2]
    for _ in range(4):
        y = y + 0.1 * rhs(y)
    return y


def upd(x):
    p = {"a": 1.0, "b": 2.0}
    p.update({"b": x[0], "c": x[1]})
    p.update(d=x[2])
    return p["a"] * p["b"] * p["c"] + p["d"]


def popd(x):
    p = {"a": x[0], "b": x[1]}
    v = p.pop("a")
    w = p.pop("zz", 2.0)
    return v * p["b"] * w + sum(p.values()) + ("a" in p)


def deld(x):
    p = {"a": x[0], "b": x[1]}
    del p["a"]
    p["c"] = x[2]
    return sum(v * v for v in p.values()) + len(p)


def passed(x):
    p = {}
    p["a"] = x[0]
    p["b"] = x[1]
    return helper(p) + helper({**p, "a": x[2]})


def inbranch(x):
    p = {}
    if x[0] > 1:
        p["a"] = x[0] ** 2
    if "a" in p:
        r = p["a"] * x[1]
    else:
        r = x[2]
    return r


def keyerr(x):
    p = {}
    for i in range(4):
        if x[i] > 1.5:
            p["big"] = x[i]
    return p["big"] * x[0]


def best2(x):
    score = {}
    for name in ["lin", "quad"]:
        r = 0.0
        for v in x:
            r += (v - 1) ** 2 if name == "lin" else (v - 2) ** 4
        score[name] = r
    best = max(score, key=score.get)
    if best == "lin":
        return score[best] * 2
    return score[best]


def nested_d(x):
    cfg = {"p": {"a": x[0], "b": x[1]}, "q": x[2]}
    cfg["q"] = cfg["q"] * 2
    return cfg["p"]["a"] * cfg["q"] + cfg["p"]["b"]


def nested_d2(x):
    cfg = {"p": {"a": x[0], "b": x[1]}, "q": x[2]}
    cfg["p"]["a"] = cfg["q"] * 2
    return cfg["p"]["a"] * cfg["q"] + cfg["p"]["b"]


def breakd(x):
    d = {}
    for k, v in zip(("a", "b", "c"), x):
        if v < 1.0:
            break
        d[k] = v * v
    return d.get("a", 1.0) * d.get("c", 3.0) + d["b"]


def contd(x):
    d = {"a": 1.0, "b": 1.0, "c": 1.0}
    for k, v in zip(("a", "b", "c"), x):
        if v < 1.0:
            continue
        d[k] += v * v
    return d["a"] * d["c"] + d["b"]


def arrs(x):
    d = {}
    for name in ("u", "v"):
        d[name] = np.zeros(4)
    for i in range(4):
        d["u"][i] = x[i] ** 2
        d["v"][i] = d["u"][i] * 2 + x[0]
    return (d["u"] * d["v"]).sum()


def history(x):
    h = {"t": [], "y": []}
    y = x[0]
    for i in range(5):
        y = y * 0.9 + x[1] * 0.1
        h["t"].append(0.1 * i)
        h["y"].append(y)
    return sum(h["y"]) + h["y"][-1] * h["t"][-1]


def retd(x):
    def sim(a):
        out = {}
        out["m"] = a * 2
        out["s"] = a**2
        return out

    r = sim(x[0])
    q = sim(x[1])
    return r["m"] * q["s"]


def modint(x):
    s = 0.0
    for k in (1, 2, 3):
        s += TABLE[k] * x[k]
    return s


def modint2(x):
    return sum(w * x[k] ** 2 for k, w in TABLE.items())


def badkey(x):
    d = {1: x[0], 2: x[1]}
    s = 0.0
    for i in range(len(x)):
        s += d[i % 2 + 1]
    return s


def emptyd(x):
    d = {}
    return x[0] + len(d)


def inl(x):
    return {"a": x[0] ** 2, "b": 2.0}["a"] + {0: x[1]}[0]


@pytest.mark.parametrize(
    "f",
    [setdef, dictcomp, dictvary, dictmin, zipdict, itemsloop, counts, dd, ddlist, ddrun, getrun, state, state2,
     state3, fkeys, fkeys2, inttab, memo2, closured, upd, popd, deld, passed, inbranch, keyerr, best2,
     nested_d, nested_d2, breakd, contd, arrs, history, retd, modint, modint2, badkey, emptyd, inl],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_agrees(f):
    with uncompiled():
        agrees(f, (X,))


def step(params, rate):
    return {k: v - rate * v**2 for k, v in params.items()}


def of_an_argument(params):
    new = {k: params[k] * 2 for k in params}
    new = step(new, 0.1)
    return new["a"] * new["b"] + new["c"]


def test_comprehensions_over_arguments():
    at = {"a": 1.5, "b": 2.0, "c": 0.5}
    value, (found,) = nb.adjoint(of_an_argument).value_and_grad(at)
    assert value == pytest.approx(of_an_argument(at))
    for k in at:
        ahead, behind = (of_an_argument({**at, k: at[k] + h}) for h in (1e-6, -1e-6))
        assert found[k] == pytest.approx((ahead - behind) / 2e-6)


def absent(x):
    p = {}
    for i in range(4):
        if x[i] > 5.0:
            p["big"] = x[i]
    return p["big"] * x[0]


def no_such_number(x):
    d = {1: x[0], 2: x[1]}
    s = 0.0
    for i in range(len(x)):
        s += d[i]
    return s


def ends_early(x):
    d = {k: v for k, v in zip(("a", "b", "c", "d", "e"), x)}
    return d["a"]


@pytest.mark.parametrize(
    "f, error", [(absent, KeyError), (no_such_number, KeyError), (ends_early, ValueError)], ids=lambda f: f.__name__
)
def test_a_key_that_is_not_there_is_an_error(f, error):
    with pytest.raises(error):
        nb.adjoint(f).value_and_grad(X)


def kept_by_another_name(x):
    d = {"a": x[0]}
    e = d
    d["a"] = x[1] * 2
    return e["a"]


def kept_in_a_loop(x):
    d, s = {"a": x[0]}, 0.0
    for v in x:
        e = d
        d["a"] = v * 2
        s += e["a"]
    return s


def unknown_key(x):
    d = {}
    for i in range(int(x[0])):
        d[i] = x[1]
    return d[0]


@pytest.mark.parametrize("f", [kept_by_another_name, kept_in_a_loop, unknown_key], ids=lambda f: f.__name__)
def test_what_cannot_be_followed_is_refused(f):
    with pytest.raises(TraceError, match="an item of a dictionary, which is set"):
        nb.adjoint(f).value_and_grad(X)
