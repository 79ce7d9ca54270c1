"""The package and what a user writes with it hold under mypy --strict."""

import subprocess
import sys

from conftest import ROOT

USER = """
from pathlib import Path

import restow

report: restow.PlanReport = restow.plan("job.yaml", tp=[4, 8], sp=True, recompute="auto", top=3)
best: restow.Candidate = report.ranked[0]
tp: int = best.layout.tp
weights: int = best.memory["weights"]
step: float = best.step_s
names: list[str] = [candidate.layout.schedule for candidate in report.ranked]
pareto: list[restow.Candidate] = [report.ranked[index] for index in report.pareto]
job = restow.Job.from_file(Path("job.yaml")).with_(tp=8, pp=(2, 4))
priced = restow.price(job, tp=8, pp=4, recompute="full")
fits: bool = priced.fits
verdict: str = restow.explain({"model": {"preset": "llama3-70b"}}, tp=8).verdict
difference: float = restow.compare(job, 1, "current").difference.time.get("matmul", 0.0)
files: list[Path] = restow.export(job, rank=1, to="restow", out="plans")
model: restow.Model = restow.models("llama3-70b")
models: list[restow.Model] = restow.models()
device: restow.Device = restow.devices("h100-sxm")
schemas: list[str] = restow.schema()
properties: object = restow.schema("job")["properties"]
columns = report.to_dataframe().columns
validation: restow.ValidationReport = restow.validate("runs.csv", by="model")
try:
    restow.plan("job.yaml")
except restow.InputError as error:
    place: tuple[str | None, int | None, int | None] = (error.file, error.line, error.column)
"""

# Each line is wrong in one way, which its comment names.
WRONG = """
import restow

restow.plan("job.yaml", tpp=8)  # call-arg
restow.plan("job.yaml", tp=2.5)  # arg-type
restow.plan(3)  # arg-type
restow.plan("job.yaml").ranked[0].layout.tpp  # attr-defined
restow.plan("job.yaml").ranked[0].step_s = 3  # misc
restow.export("job.yaml")  # call-arg
"""


def mypy(*arguments):
    cache = ROOT / "build" / "python" / "mypy"
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", "--config-file",
                           ROOT / "pyproject.toml", "--cache-dir", cache, *arguments],
                          capture_output=True, text=True, cwd=ROOT, check=False)


def test_the_package_is_strict():
    # restow.mindspore is checked beside its framework, in build/venv-mindspore.
    run = mypy("python/restow", "--exclude", "restow/mindspore")
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_users_program_is_strict(tmp_path):
    path = tmp_path / "user.py"
    path.write_text(USER)
    run = mypy(path)
    assert run.returncode == 0, run.stdout + run.stderr


def test_mistakes_are_found(tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    run = mypy(path)
    for number, line in enumerate(WRONG.splitlines(), 1):
        if "#" in line:
            kind = line.split("# ")[1]
            assert any(f":{number}: error" in found and f"[{kind}]" in found
                       for found in run.stdout.splitlines()), (line, run.stdout)


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "python" / "restow" / "py.typed").exists()


def test_the_stub_of_the_extension_names_what_it_holds():
    import ast
    from restow import _restow
    stub = ast.parse((ROOT / "python" / "restow" / "_restow.pyi").read_text())
    named = set()
    for node in stub.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            named.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            named.add(node.target.id)
        if isinstance(node, ast.ClassDef):
            methods = {m.name for m in node.body if isinstance(m, ast.FunctionDef)}
            assert methods <= set(dir(getattr(_restow, node.name)))
    assert named == {name for name in dir(_restow) if not name.startswith("__")}
