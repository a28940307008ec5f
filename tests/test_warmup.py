"""``python -m nbgrad warmup``: what it leaves for the next process, and what it says (of few operators)."""

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from nbgrad import warmup
from nbgrad.__main__ import main
from nbgrad.core.config import __version__
from nbgrad.errors import DTypeError, NBGradError

ROOT = Path(__file__).resolve().parent.parent

PROGRAM = """
import numpy as np
from nbgrad import autograd, nd
x, row, column = (nd.array(np.ones(s), dtype="float64") for s in ((3, 5), (5,), (3, 1)))
for v in (x, row, column):
    v.attach_grad()
with autograd.record():
    y = nd.tanh(x) * row
    z = (y * column * nd.tanh(x) * 3.5).sum()
z.backward()
x *= 2.0
"""


def python(directory, *arguments, **env):
    full = {k: v for k, v in os.environ.items() if not k.startswith("NBGRAD")}
    full |= {"NBGRAD_CACHE_DIR": str(directory), "PYTHONPATH": str(ROOT), **env}
    return subprocess.run([sys.executable, *arguments], env=full, capture_output=True, text=True, timeout=300)


def warm_up(directory, *arguments):
    done = python(directory, "-m", "nbgrad", "warmup", *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no bar where there is no terminal
    compiled, ready, seconds, where = re.fullmatch(
        r"(\d+) kernels compiled, (\d+) were ready, ([\d.]+) s: (.*)\n", done.stdout
    ).groups()
    assert where == str(directory)
    return int(compiled), int(ready), float(seconds)


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    directory = tmp_path_factory.mktemp("warm")
    operators = ("tanh", "multiply", "sum")
    return directory, operators, warm_up(directory, "--ops", *operators, "--dtypes", "float64", "--jobs", "2")


def test_a_program_finds_everything_compiled(warm):
    directory, _, (compiled, _, _) = warm
    assert compiled == len(list(directory.glob("??/*.kernel"))) > 20
    done = python(directory, "-c", PROGRAM, NBGRAD_LOG="compile")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("nbgrad: loaded") > 5
    assert "nbgrad: compiled" not in done.stderr


def test_again_there_is_nothing_to_do(warm):
    directory, operators, (compiled, ready, _) = warm
    again = warm_up(directory, "--ops", *operators, "--dtypes", "float64")
    assert again[:2] == (0, compiled + ready)


def test_more_dtypes_and_orders_compile_the_rest(warm):
    directory, _, _ = warm
    assert warm_up(directory, "--ops", "tanh", "--dtypes", "float64", "int64", "--order", "3")[0] > 3
    assert warm_up(directory, "--ops", "tanh", "--dtypes", "float64", "int64", "--order", "3")[0] == 0


def test_the_log_says_what_is_compiled_and_how_long_it_took(tmp_path):
    code = "from nbgrad import nd\nnd.tanh(nd.array([1.0]))"
    for how in ("compiled", "loaded"):
        done = python(tmp_path, "-c", code, NBGRAD_LOG="compile")
        (line,) = [line for line in done.stderr.split("\n") if "tanh" in line]
        assert re.fullmatch(rf"nbgrad: {how} tanh\(float32\[\], float32\[\]\) in \d+\.\d ms", line)


def test_what_does_not_exist_is_an_error_that_says_so():
    with pytest.raises(NBGradError, match="no operator is called 'tanhh'"):
        warmup.warmup(["tanh", "tanhh"])
    with pytest.raises(DTypeError, match="float31"):
        warmup.warmup(["tanh"], ["float31"])
    done = python(ROOT, "-m", "nbgrad", "warmup", "--ops", "tanhh")
    assert done.returncode == 2 and "no operator is called 'tanhh'" in done.stderr


def test_the_bar_is_for_terminals():
    class Terminal(StringIO):
        def isatty(self):
            return True

    for stream, expected in (
        (StringIO(), ""),
        (Terminal(), "[##########                    ] 1/3 operators, 7 kernels"),
    ):
        show = warmup._progress(3, stream)
        show(1, 7)
        assert stream.getvalue().strip("\r").startswith(expected)
        show(3, 9)
        assert stream.getvalue().endswith("\n") is bool(expected)


def test_trouble_with_one_operator_is_told_and_stops_nothing(monkeypatch):
    def broken(*args, **kwargs):
        raise ValueError("broken")

    monkeypatch.setattr(warmup.operators["tanh"], "call", broken)
    _, failures = warmup._run("tanh", ["float64"], 1)
    assert failures == ["tanh on float64: ValueError: broken"]


def test_the_command_line(capsys):
    main([])
    shown = capsys.readouterr().out
    assert shown.startswith("usage: python -m nbgrad") and all(
        name in shown for name in ("demo", "info", "cache", "warmup", "--version")
    )
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0 and capsys.readouterr().out == f"nbgrad {__version__}\n"
    for wrong in (["demmo"], ["cache"], ["cache", "erase"], ["--verson"]):
        with pytest.raises(SystemExit) as ended:
            main(wrong)
        assert ended.value.code == 2 and "usage" in capsys.readouterr().err
    bare = python(ROOT, "-m", "nbgrad")
    assert bare.returncode == 0 and bare.stdout.startswith("usage") and not bare.stderr
