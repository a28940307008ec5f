"""Docstring generation: the sections common to all operators: `out`, dtypes, gradients, errors, aliases.

An operator's own docstring says what it does and describes its special parameters. The sections that it leaves out are
generated from its signature and its samples, so they agree with what tests check.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import cache
from textwrap import fill

from .samples import Sample

__all__ = ["complete_docstring", "wrapped"]

_SECTIONS = ("Parameters", "Returns", "Raises", "Notes", "References", "Examples")
_OUT = "out : NDArray, optional\n    Where to put the result; must have its shape and dtype."
_OUTS = "out : list of NDArray, optional\n    Where to put the results; must have their shapes and dtypes."
_ERRORS = "DTypeError, ShapeError, AttrError\n    If an operand is not an NDArray, or shapes and attributes do not fit."

#: Parameters that mean the same in every operator that has them.
_KNOWN = {
    "axis": ("int, optional", "Negative numbers count from the end."),
    "axes": ("int or tuple of int, optional", "Negative numbers count from the end."),
    "keepdims": ("bool", "Keep reduced axes with length 1."),
    "exclude": ("bool", "Reduce all axes but these."),
    "dtype": ("optional", "Of the result."),
    "lower": ("bool", "Work with the lower triangle; else with the upper."),
    "offset": ("int", "Which diagonal; positive ones are above the main one."),
    "alpha": ("float", "Factor of the product."),
    "transpose": ("bool", "Transpose the operand."),
    "transpose_a": ("bool", "Transpose the first operand."),
    "transpose_b": ("bool", "Transpose the second operand."),
    "rightside": ("bool", "Multiply from the right."),
}


def complete_docstring(
    doc: str,
    call: Callable,
    samples: Sequence[Sample],
    aliases: Sequence[str],
    differentiable: bool,
    formula: str,
    gradient: str = "",
) -> str:
    """A docstring with every section.

    Parameters
    ----------
    doc : str
        The operator's own docstring.
    call : callable
        Its signature provides the parameters.
    samples, aliases, differentiable, formula, gradient
        As in the operator's registry entry.
    """
    summary, *rest = re.split(r"\n\n(?=\w+\n-{4,}\n)", inspect.cleandoc(doc))
    sections = {text.split("\n")[0]: text.split("\n", 2)[2].rstrip() for text in rest}
    assert set(sections) <= set(_SECTIONS), f"{call.__name__}: sections {set(sections)}"
    result = sections.setdefault("Returns", f"NDArray\n    {_result(samples)}")
    parameters = sections.get("Parameters", "") or _parameters(call, samples)
    if not re.search(r"^out\b", parameters, re.M):
        parameters += "\n" + (_OUTS if re.match(r"(NDArray, )?(or )?(list|tuple)", result) else _OUT)
    sections["Parameters"] = parameters.strip()
    sections.setdefault("Raises", _ERRORS)
    common = f"{_dtypes(samples)} {_gradient(samples, differentiable, formula)}"
    if gradient:
        sections["Notes"] = "\n\n".join(filter(None, (wrapped(f"Gradient: {gradient}."), sections.get("Notes"))))
    own_text = summary + sections.get("Notes", "")
    if re.search(r"Gradients?:.*\bg\b", own_text, re.S):
        common = f"g is the gradient of the result. {common}"
    public = [f"``{a}``" for a in aliases if not a.startswith("_")]
    notes = (sections.get("Notes"), wrapped(common), f"Also called {', '.join(public)}." if public else "")
    sections["Notes"] = "\n\n".join(filter(None, notes))
    blocks = [f"{title}\n{'-' * len(title)}\n{sections[title]}" for title in _SECTIONS if title in sections]
    return "\n\n".join([summary, *blocks])


@cache
def wrapped(text: str) -> str:
    """The text wrapped at 110 characters; cached, since many operators share sentences."""
    return text if len(text) <= 110 else fill(text, 110)


def _parameters(call: Callable, samples: Sequence[Sample]) -> str:
    """The operands, and the attributes with their defaults."""
    operands = len(samples[0].inputs) if samples else 1
    lines = []
    for k, (name, p) in enumerate(inspect.signature(call).parameters.items()):
        if p.kind is p.VAR_POSITIONAL:
            lines += [f"*{name} : NDArray"]
        elif p.kind is p.VAR_KEYWORD:
            continue
        elif k < operands and p.default is p.empty:
            lines += [f"{name} : NDArray"]
        else:
            kind, meaning = _KNOWN.get(name, (_kind(name, p.default, samples), ""))
            required = p.default is p.empty or repr(p.default) == "required"
            known = "Required." if required else f"Default {p.default!r}."
            lines += [f"{name} : {kind}", f"    {known} {meaning}".rstrip()]
    return "\n".join(lines)


def _kind(name: str, default, samples: Sequence[Sample]) -> str:
    """The type of an attribute: that of its default and of its values in samples."""
    examples = [default, *(sample.attrs[name] for sample in samples if name in sample.attrs)]
    kinds = dict.fromkeys(type(v).__name__ for v in examples if isinstance(v, bool | int | float | str | tuple))
    return " or ".join(kinds).replace("tuple", "tuple of int") or "optional"


def _result(samples: Sequence[Sample]) -> str:
    """The sentence on the result's dtype, from the samples."""
    results = {sample.result for sample in samples}
    if results <= {"same", "float"}:
        return "Of the operands' dtype" + (", a floating one." if "float" in results else ".")
    return f"Of dtype {', '.join(sorted(results))}."


def _dtypes(samples: Sequence[Sample]) -> str:
    results = {sample.result for sample in samples if sample.ints}
    text = "Floating dtypes (float16 is computed in float32)"
    if "float" in results:
        return f"{text}; integers and bools become the default float dtype first."
    return f"{text}, integers and bools." if results else f"{text}."


def _gradient(samples: Sequence[Sample], differentiable: bool, formula: str) -> str:
    if differentiable:
        declared = any(sample.loss for sample in samples)
        return "Its gradient is declared, that of a loss." if declared else "Differentiable to any order."
    return "Its gradient is 0." if formula else "It has no gradient."
