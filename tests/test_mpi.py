"""nbgrad.mpi on one to four ranks: the programs of ranks.py, started by mpiexec."""

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("mpi4py")
HERE = Path(__file__).parent
PROGRAM = HERE / "ranks.py"


def run(ranks, *args, program=PROGRAM, **variables):
    mpiexec = Path(sys.executable).with_name("mpiexec")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", **variables}
    command = [str(mpiexec if mpiexec.exists() else "mpiexec"), "-n", str(ranks), sys.executable, str(program), *args]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)


@cache
def outcomes(ranks):
    ran = run(ranks)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def names():
    """The programs, and the collectives, without importing what needs MPI."""
    tree = ast.parse(PROGRAM.read_text(encoding="utf-8"))
    checks = [f.name for f in tree.body if isinstance(f, ast.FunctionDef) and f.decorator_list]
    maps = next(s.value for s in tree.body if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "MAPS")
    return [ast.literal_eval(key) for key in maps.keys] + checks


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks(ranks, name):
    assert outcomes(ranks)[name] == ["ok"] * ranks, "\n".join(outcomes(ranks)[name])


def test_calls_that_do_not_fit_together_are_found_in_checked_mode():
    ran = run(2, "mismatched_calls", NBGRAD_CHECKED="1")
    assert ran.returncode == 0, ran.stderr


def test_all_ranks_end_if_one_raises():
    ran = run(3, "one_rank_raises")
    assert ran.returncode != 0
    assert "rank 2 of 3 ended by an exception" in ran.stderr and "this rank has no data" in ran.stderr


def test_the_program_of_the_documents_finds_the_same_on_any_number_of_ranks():
    sums = []
    for ranks in (1, 3):
        program = HERE.parent / "docs" / "programs" / "heat_inversion.py"
        ran = run(ranks, "--cells", "18", "--steps", "6", program=program)
        assert ran.returncode == 0, ran.stderr
        sums.append(float(ran.stdout.splitlines()[-1].split(": ")[1]))
    assert abs(sums[0] - sums[1]) < 1e-7 * abs(sums[0])
