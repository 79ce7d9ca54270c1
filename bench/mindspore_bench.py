"""`./run bench mindspore`: peak memory and step time of a six-block model on CPU.

mindspore_bench.py [OUT.json]        every variant, each in a process of its own, median of RUNS
mindspore_bench.py --variant NAME    one variant in this process; prints one line of JSON

Variants: `plain` MindSpore; `naive` hooks, which write each tensor of 1 MiB and more to a file and
read it back; `restow`; and `floor`, the same script with one block, to which five blocks' weights
and gradients are added. The disk's rates are fio's, in the same run. RESTOW_BENCH_DIR names the folder for files, RESTOW_BENCH_RUNS the runs.
"""

import hashlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

BLOCKS, WIDTH, INNER, ROWS, STEPS = 6, 1024, 4096, 8192, 3
MIB = 1 << 20
VARIANTS = ("floor", "plain", "naive", "restow")
RUNS = int(os.environ.get("RESTOW_BENCH_RUNS", "5"))


def run_variant(name, folder):
    import mindspore as ms
    import numpy as np
    from mindspore import Tensor, nn

    class Block(nn.Cell):
        def __init__(self):
            super().__init__()
            self.up = nn.Dense(WIDTH, INNER)
            self.act = nn.GELU()
            self.down = nn.Dense(INNER, WIDTH)

        def construct(self, x):
            return x + self.down(self.act(self.up(x)))

    def pack(tensor):
        if tensor.nbytes < MIB or tensor.param_info is not None:
            return tensor
        handle, path = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            tensor.asnumpy().tofile(file)
        return path, tensor.shape

    def unpack(saved):
        if not isinstance(saved, tuple):
            return saved
        array = np.fromfile(saved[0], np.float32).reshape(saved[1])
        os.unlink(saved[0])
        return Tensor.from_numpy(array)

    ms.set_seed(1)
    blocks = [Block() for _ in range(1 if name == "floor" else BLOCKS)]
    if name == "restow":
        import restow.mindspore as rm

        rm.configure(file_dir=folder)
        blocks = [rm.swap_wrapper(block) for block in blocks]
    weights = [p for block in blocks for p in block.trainable_params()]

    def forward(x):
        for block in blocks:
            x = block(x)
        return (x * x).mean()

    def hooked(x):
        with ms.saved_tensors_hooks(pack, unpack):
            return forward(x)

    step = ms.value_and_grad(hooked if name == "naive" else forward, None, weights)
    x = Tensor(np.random.RandomState(0).standard_normal((ROWS, WIDTH)).astype(np.float32))
    times = []
    digest = hashlib.sha256()
    for index in range(STEPS):
        begin = time.perf_counter()
        loss, grads = step(x)
        loss.asnumpy()
        for grad in grads:
            grad.asnumpy()
        times.append(time.perf_counter() - begin)
        if index == STEPS - 1:
            for value in (loss, *grads):
                digest.update(value.asnumpy().tobytes())
        del loss, grads
    result = {
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "step_s": min(times[1:]),
        "first_step_s": times[0],
        "weight_bytes": sum(p.nbytes for p in weights),
        "digest": digest.hexdigest(),
    }
    if name == "restow":
        stats = rm.stats()
        result.update(bytes_out=stats.file_bytes, bytes_in=stats.bytes_in, stalls=stats.stalls)
    print("RESULT " + json.dumps(result))


def fio(folder, way):
    """Bytes a second of `way`, "write" or "read", past the page cache, over a file that exists."""
    path = os.path.join(folder, "fio")
    command = [
        "fio", "--name=rate", f"--filename={path}", f"--rw={way}", "--size=512m", "--bs=4m",
        "--iodepth=8", "--ioengine=libaio", "--direct=1", "--overwrite=1", "--end_fsync=1",
        "--output-format=json",
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"fio: exit {run.returncode}\n{run.stderr[-2000:]}")
    return json.loads(run.stdout[run.stdout.index("{") :])["jobs"][0][way]["bw_bytes"]


def measured(name, folder):
    command = [sys.executable, __file__, "--variant", name]
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "RESTOW_BENCH_DIR": folder},
    )
    lines = [line for line in run.stdout.splitlines() if line.startswith("RESULT ")]
    if run.returncode != 0 or not lines:
        sys.exit(f"{name}: exit {run.returncode}\n{run.stderr[-2000:]}")
    return json.loads(lines[-1].removeprefix("RESULT "))


def middle(runs, key):
    return statistics.median(run[key] for run in runs)


def main(out):
    with tempfile.TemporaryDirectory(dir=os.environ.get("RESTOW_BENCH_DIR")) as folder:
        runs = {name: [] for name in VARIANTS}
        rates = []
        for _ in range(RUNS):
            # A shared disk is faster in one minute than in the next.
            rates.append({"write": fio(folder, "write"), "read": fio(folder, "read")})
            for name in VARIANTS:
                runs[name].append(measured(name, folder))
    write, read = middle(rates, "write"), middle(rates, "read")
    peak = {name: middle(runs[name], "peak_bytes") for name in VARIANTS}
    step = {name: middle(runs[name], "step_s") for name in VARIANTS}
    # Weights and gradients of the blocks that the floor's script does not have.
    floor = peak["floor"] + 2 * runs["floor"][0]["weight_bytes"] * (BLOCKS - 1)
    out_bytes, in_bytes = (middle(runs["restow"], key) / STEPS for key in ("bytes_out", "bytes_in"))
    traffic = out_bytes / write + in_bytes / read
    bound = 1.15 * max(step["plain"], traffic)
    digests = {run["digest"] for name in ("plain", "naive", "restow") for run in runs[name]}
    print(f"{BLOCKS} blocks {WIDTH}-{INNER}-{WIDTH}, input {ROWS}x{WIDTH}, {STEPS} steps, {RUNS} runs")
    print(f"{'':8} {'peak MiB':>9} {'over floor':>11} {'step s':>8} {'of plain':>9}")
    for name in VARIANTS[1:]:
        over = (peak[name] - floor) / MIB
        ratio = step[name] / step["plain"]
        print(f"{name:8} {peak[name] / MIB:9.0f} {over:11.0f} {step[name]:8.2f} {ratio:9.2f}")
    bars = {
        "peak <= floor + 256 MiB": peak["restow"] <= floor + 256 * MIB,
        "gradients bit-equal": len(digests) == 1,
        "step below the naive pair's": step["restow"] < step["naive"],
        "step <= 1.15 x max(plain, traffic)": step["restow"] <= bound,
    }
    print(f"floor {floor / MIB:.0f} MiB; {out_bytes / MIB:.0f} MiB out and {in_bytes / MIB:.0f} in a step")
    print(f"fio: {write / MIB:.0f} MiB/s written, {read / MIB:.0f} read; bound {bound:.2f} s")
    for bar, met in bars.items():
        print(f"{'met   ' if met else 'MISSED'} {bar}")
    if out is not None:
        figures = {"runs": runs, "fio": rates, "floor_bytes": floor, "write_bytes_per_s": write}
        figures |= {"read_bytes_per_s": read, "bound_s": bound, "bars": bars}
        with open(out, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--variant"]:
        run_variant(sys.argv[2], os.environ["RESTOW_BENCH_DIR"])
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else None)
