"""Terms, the expressions of lowered functions: unique, printed as Python reads them, substituted by structure."""

import ast
import copy
import gc
import math
import pickle
from random import Random

import numpy as np
import pytest

from nbgrad.loops.ir import terms
from nbgrad.loops.ir.affine import distance, minus, offset, plus
from nbgrad.loops.ir.from_syntax import term_of_syntax
from nbgrad.loops.ir.terms import (
    FALSE,
    MINUS_ONE,
    ONE,
    TRUE,
    ZERO,
    Binary,
    Call,
    Compare,
    Constant,
    DType,
    Element,
    Global,
    Length,
    Logical,
    Prefix,
    Select,
    Shape,
    Term,
    Unary,
    Variable,
    elements_in,
    integer,
    substitute,
    subterms,
)

FUNCTIONS = {"math.sin": math.sin, "np.maximum": np.maximum, "max": max}
BINARY = ["+", "-", "*", "/", "//", "%", "**", "<<", ">>", "|", "^", "&"]


def random_term(rng: Random, depth: int) -> Term:
    """A term of all kinds; numbers are not negative, as Python has no such literals."""
    if depth == 0 or rng.random() < 0.1:
        leaves = [Variable(rng.choice("abc")), Constant(rng.choice([0, 1, 2.5, 1e300, True])), Length("x", 1)]
        return rng.choice([*leaves, Length("y", None), Shape("x"), DType("x")])

    def some(count: int) -> tuple[Term, ...]:
        return tuple(random_term(rng, depth - 1) for _ in range(count))

    function = rng.choice([*FUNCTIONS])
    return rng.choice(
        [
            lambda: Element("x", some(rng.randint(1, 2))),
            lambda: Prefix("y", some(rng.randint(1, 2))),
            lambda: Unary(rng.choice(["-", "+", "~", "not"]), *some(1)),
            lambda: Binary(rng.choice(BINARY), *some(2)),
            lambda: Compare(("<", "!=")[: (count := rng.randint(1, 2))], some(count + 1)),
            lambda: Logical(rng.choice(["and", "or"]), some(rng.randint(2, 3))),
            lambda: Select(*some(3)),
            lambda: Call(Global(function, FUNCTIONS[function]), some(rng.randint(1, 2))),
        ]
    )()


def outside(node: ast.expr) -> Global | None:
    text = ast.unparse(node)
    return Global(text, FUNCTIONS[text]) if text in FUNCTIONS else None


@pytest.mark.parametrize("seed", range(40))
def test_the_text_of_a_term_is_read_as_the_same_term(seed):
    rng = Random(seed)
    for _ in range(50):
        term = random_term(rng, 4)
        tree = ast.parse(str(term), mode="eval").body
        assert str(term) == ast.unparse(tree)
        assert term_of_syntax(tree, outside) is term


@pytest.mark.parametrize("seed", range(5))
def test_equal_terms_are_one_object(seed):
    def again(t: Term) -> Term:
        return t.rebuilt(tuple(map(again, t.operands))) if t.operands else t

    for _ in range(50):
        term = random_term(Random(seed), 4)
        assert again(term) is term is random_term(Random(seed), 4)
        assert copy.deepcopy(term) is term
        if not any(isinstance(t, Global | Call) for t in subterms(term)):
            assert pickle.loads(pickle.dumps(term)) is term


def test_numbers_are_told_apart_by_type_and_sign():
    numbers = [Constant(x) for x in (0, 0.0, -0.0, False, 1, 1.0, True)]
    assert len(set(numbers)) == len(numbers)
    assert (numbers[0], numbers[3], numbers[4], numbers[6]) == (ZERO, FALSE, ONE, TRUE)
    assert Constant(math.nan) is Constant(math.nan)
    assert integer(-1) is MINUS_ONE is Unary("-", ONE)


def test_what_is_no_longer_used_is_forgotten():
    gc.collect()
    before = len(terms._terms)
    term = Binary("*", Variable("only"), Variable("here"))
    assert len(terms._terms) == before + 3
    del term
    gc.collect()
    assert len(terms._terms) == before


def test_names_that_are_read_and_those_that_are_asked_for_their_length():
    term = Binary("+", Element("x", (Variable("i"),)), Length("y", 0))
    assert term.reads == {"x", "i"}
    assert term.named == {"x", "i", "y"}
    assert Call(Global("max", max), (Prefix("z", (Variable("n"),)), DType("w"))).reads == {"z", "n"}


def test_substitution_takes_the_outermost_first():
    i, j, element = Variable("i"), Variable("j"), Element("x", (Variable("i"),))
    term = Binary("+", element, i)
    assert substitute(term, {i: j}) is Binary("+", Element("x", (j,)), j)
    assert substitute(term, {element: Variable("s"), i: j}) is Binary("+", Variable("s"), j)
    assert substitute(term, {j: i}) is term
    assert elements_in(substitute(term, {i: j}), "x") == [(j,)]


def test_affine_terms():
    i = Variable("i")
    assert offset(plus(plus(i, 3), -5)) == (i, -2)
    assert plus(plus(i, 3), -3) is i
    assert str(plus(i, -2)) == "i - 2"
    assert plus(ZERO, -1) is MINUS_ONE
    assert plus(MINUS_ONE, 1) is ZERO
    assert minus(i, Constant(2)) is plus(i, -2)
    assert distance(plus(i, 4), plus(i, 1)) == 3
    assert distance(i, Variable("j")) is None
    assert offset(Binary("+", Constant(2), i)) == (i, 2)
    assert offset(MINUS_ONE) == (None, -1)
