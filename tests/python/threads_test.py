"""The interpreter stays usable while the planner works, and Ctrl-C reaches it."""

import json
from concurrent.futures import ThreadPoolExecutor

import restow
from conftest import EXAMPLES, LLAMA, python

# A job whose search takes minutes on any machine: the time limit of `python` is the oracle.
ENDLESS = """
import itertools, os, signal, sys, threading
import restow
job = restow.Job.from_file("examples/deepseek-v3-1024xh800.yaml").with_(
    tp="auto", pp="auto", dp="auto", cp="auto", ep="auto", etp="auto", vpp="auto",
    micro_batch="auto", zero="auto", sp="auto", schedule="auto", recompute="auto",
    order=["-".join(order) for order in itertools.permutations(["tp", "cp", "ep", "dp", "pp"])])
"""

# A job whose search takes a second or more on one thread: long enough for another thread to be given
# the interpreter while it runs.
SECONDS = "examples/deepseek-v3-1024xh800.yaml"

# Runs `act` on another thread at a moment when the main one is inside the call. The interpreter
# changes threads only where the main one lets go of it, which is what is tested.
INSIDE = """
import time
sys.setswitchinterval(1e6)
main, go = threading.get_ident(), threading.Event()
def watch():
    go.wait()
    while sys._current_frames()[main].f_code.co_name != NAME:
        time.sleep(0)  # the main one may have let go before it was inside
    act()
watcher = threading.Thread(target=watch)
watcher.start()
go.set()
"""


def test_other_threads_run_while_a_plan_is_made():
    run = python("NAME = 'plan'\nimport sys, threading, restow\nseen = []\n"
                 "act = lambda: seen.append('inside')\n" + INSIDE +
                 f"restow.plan({SECONDS!r}, threads=1)\n"
                 "print(seen)\nwatcher.join()")
    assert run.stdout == "['inside']\n", run.stderr


def test_ctrl_c_ends_a_search_with_keyboard_interrupt():
    for name, call in (("plan", "restow.plan(job, threads=1)"),
                       ("explain", "restow.explain(job, tp=4, threads=1)"),
                       ("compare", "restow.compare(job, 1, 2, threads=1)"),
                       ("export", "restow.export(job, rank=1, out='/proc/nowhere', threads=1)")):
        run = python(ENDLESS + f"NAME = {name!r}\n"
                     "act = lambda: os.kill(os.getpid(), signal.SIGINT)\n" + INSIDE +
                     f"try:\n    {call}\n    print('ended')\n"
                     "except KeyboardInterrupt:\n    print('interrupted')\n"
                     "print(restow.price('examples/llama3-70b-64xh100.yaml', tp=8, pp=4, recompute='full').fits)\n")
        assert run.stdout == "interrupted\nTrue\n", (name, run.stdout, run.stderr)


def test_a_handler_that_raises_something_else_ends_it_too():
    run = python(ENDLESS + "NAME = 'plan'\n"
                 "class Enough(Exception): pass\n"
                 "def enough(*_): raise Enough\n"
                 "signal.signal(signal.SIGUSR1, enough)\n"
                 "act = lambda: os.kill(os.getpid(), signal.SIGUSR1)\n" + INSIDE +
                 "try:\n    restow.plan(job, threads=1)\nexcept Enough:\n    print('enough')\n")
    assert run.stdout == "enough\n", run.stderr


def test_a_handler_that_returns_lets_it_go_on():
    run = python("import os, signal, sys, threading, restow\nNAME = 'plan'\nseen = []\n"
                 "signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))\n"
                 "act = lambda: os.kill(os.getpid(), signal.SIGUSR1)\n" + INSIDE +
                 f"print(restow.plan({SECONDS!r}, threads=1).complete)\n")
    assert run.stdout == "True\n", run.stderr


def test_many_threads_may_plan_at_once():
    alone = {path: answer(path) for path in EXAMPLES}
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(answer, EXAMPLES * 4))
    assert together == [alone[path] for path in EXAMPLES * 4]


def answer(path):
    document = restow.plan(path, threads=2).to_dict()
    del document["elapsed_s"]
    return json.dumps(document)


def test_one_job_may_be_shared_by_threads():
    job = restow.Job.from_file(LLAMA)
    with ThreadPoolExecutor(8) as pool:
        prices = list(pool.map(lambda tp: restow.price(job, tp=tp, pp=4, recompute="full").step_s, [4, 8] * 20))
    assert set(prices[::2]) == {prices[0]} and set(prices[1::2]) == {prices[1]}


def test_answers_do_not_depend_on_the_number_of_threads():
    reports = [restow.plan(LLAMA, threads=threads) for threads in (1, 2, 8, None)]
    assert all(report.ranked == reports[0].ranked for report in reports)
