#!/usr/bin/env python3
"""Holds the include rules of ARCHITECTURE.md; run as a test.

  check_layers.py [ROOT]        layering, homes of third-party headers, file names, file sizes
  check_layers.py --width ...   line lengths too
  check_layers.py --self-test   plants one violation of each rule and expects it to be found
"""

import pathlib
import re
import sys
import tempfile

# A library and those below it that it may include.
MAY_INCLUDE = {
    "base": set(),
    "schema": {"base"},
    "io": {"schema", "base"},
    "plan": {"schema", "base"},
    "swap": {"schema", "base"},
    "report": {"schema", "base"},
    "validate": {"plan", "io", "schema", "base"},
}
# First part of a third-party header -> folders that may include it.
HOMES = {
    "yaml-cpp": ["src/io/"],
    "toml++": ["src/io/"],
    "nlohmann": ["src/io/"],
    "CLI": ["cli/"],
    "torch": ["adapters/libtorch/"],
    "ATen": ["adapters/libtorch/"],
    "c10": ["adapters/libtorch/"],
    "pybind11": ["python/cpp/", "adapters/libtorch/python/"],
    "benchmark": ["bench/"],
    "liburing.h": ["src/swap/file_tier/"],
    "xxhash.h": ["src/swap/file_tier/", "src/swap/c_api.cc"],
}
# First part of a face's own headers -> its folder, and what it is.
FACES = {"cli": ("cli/", "the command"), "cpp": ("python/cpp/", "the bindings")}
TEST_ONLY = {"gtest", "gmock"}
# `plan` does no I/O and reads no environment and no clock.
IMPURE_HEADERS = {"chrono", "cstdio", "ctime", "filesystem", "fstream", "iostream", "random",
                  "stdio.h", "time.h", "unistd.h"}
IMPURE_CALLS = re.compile(r"\b(getenv|secure_getenv)\s*\(")

FOLDERS = ["include", "src", "cli", "adapters", "python", "bench", "tests"]
LONGEST_FILE = 800  # lines
WIDEST_LINE = 100  # characters
# Public headers of adapters, and who may include them.
ADAPTER_FACES = {"restow/libtorch.h": ("adapters/libtorch/", "examples/torch/")}

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
FILE_NAME = re.compile(r"^[a-z][a-z0-9_]*\.(h|cc)$")


def library_of(path):
    """The library a file belongs to, or None for the command, tests and benchmarks."""
    parts = path.split("/")
    if parts[:2] == ["include", "restow"]:
        return parts[2]
    return parts[1] if parts[0] == "src" else None


def is_test(path):
    name = path.split("/")[-1]
    return (name.endswith("_test.cc") or name.startswith("test_")
            or path.split("/")[0] in ("tests", "bench") or "/testing/" in path)


def check_quoted(path, header):
    """An include of our own; yields what is wrong with it."""
    if header in ADAPTER_FACES:
        if not path.startswith(ADAPTER_FACES[header]):
            yield f"'{header}' is an adapter's; no library may include it"
        return
    own, parts = library_of(path), header.split("/")
    public = parts[0] == "restow"
    target = parts[1] if public else parts[0]
    if target in FACES and not public:
        home, what = FACES[target]
        if not path.startswith(home):
            yield f"'{header}' belongs to {what}; no library may include it"
        return
    if target not in MAY_INCLUDE:
        if public or "/" not in header:
            yield f"'{header}' is in no known library; includes are written from the root"
        return
    if target == own or is_test(path):
        return
    if not public:
        yield f"'{header}' is private to {target}"
    elif own is not None and target not in MAY_INCLUDE[own]:
        yield f"{own} may not include {target} ('{header}')"


def check_angled(path, header):
    """An include of the standard library or a third party; yields what is wrong with it."""
    first = header.split("/")[0]
    in_c = path.endswith("/c_api.h") and header in ("stddef.h", "stdint.h")
    if path.startswith("include/") and ("/" in header or header.endswith(".h")) and not in_c:
        yield f"<{header}> in a public header; those include std and restow/ only"
    if first in HOMES and not any(path.startswith(home) for home in HOMES[first]):
        yield f"<{header}> has its home in {' and '.join(HOMES[first])}"
    if first in TEST_ONLY and not is_test(path):
        yield f"<{header}> belongs in tests"
    if library_of(path) == "plan" and not is_test(path) and header in IMPURE_HEADERS:
        yield f"<{header}>: plan does no I/O and reads no environment and no clock"


def check_line(path, line):
    match = INCLUDE.match(line)
    if match and match.group(1):
        yield from check_quoted(path, match.group(1))
    elif match:
        yield from check_angled(path, match.group(2))
    if library_of(path) == "plan" and not is_test(path) and IMPURE_CALLS.search(line):
        yield "plan reads no environment"


def check_file(path, text, width):
    """Yields (line number, message) for one file; `path` is relative to the root."""
    lines = text.split("\n")
    name = path.split("/")[-1]
    if not FILE_NAME.match(name):
        yield 1, f"'{name}' is not snake_case.h or snake_case.cc"
    if len(lines) - 1 > LONGEST_FILE:
        yield LONGEST_FILE, f"{len(lines) - 1} lines; {LONGEST_FILE} are the most"
    if name.endswith(".h") and "#pragma once" not in text:
        yield 1, "the header lacks #pragma once"
    for number, line in enumerate(lines, 1):
        for message in check_line(path, line):
            yield number, message
        if width and len(line) > WIDEST_LINE:
            yield number, f"{len(line)} characters; {WIDEST_LINE} are the most"


def check_tree(root, width=False):
    """All violations under `root`, as printable lines, in a fixed order."""
    found = []
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in (".h", ".cc"):
                continue
            path = file.relative_to(root).as_posix()
            for number, message in check_file(path, file.read_text(encoding="utf-8"), width):
                found.append(f"{path}:{number}: {message}")
    return found


# File, its text, and a part of the message expected; None: nothing may be found.
PLANTED = [
    ("src/base/a.cc", '#include "restow/schema/job.h"\n', "base may not include schema"),
    ("src/schema/a.cc", '#include "restow/io/read.h"\n', "schema may not include io"),
    ("src/plan/a.cc", '#include "restow/io/read.h"\n', "plan may not include io"),
    ("src/plan/a.cc", '#include "restow/report/table.h"\n', "plan may not include report"),
    ("src/report/a.cc", '#include "restow/plan/planner.h"\n', "report may not include plan"),
    ("include/restow/report/a.h", '#pragma once\n#include "restow/io/read.h"\n', "may not include"),
    ("src/report/a.cc", '#include "io/limits.h"\n', "private to io"),
    ("cli/a.cc", '#include "io/limits.h"\n', "private to io"),
    ("src/io/a.cc", '#include "cli/common.h"\n', "no library may include it"),
    ("src/report/a.cc", "#include <nlohmann/json.hpp>\n", "home in src/io/"),
    ("src/plan/a.cc", "#include <yaml-cpp/yaml.h>\n", "home in src/io/"),
    ("src/io/a.cc", "#include <CLI/CLI.hpp>\n", "home in cli/"),
    ("src/swap/a.cc", "#include <liburing.h>\n", "home in src/swap/file_tier/"),
    ("src/io/a.cc", "#include <xxhash.h>\n", "home in src/swap/file_tier/"),
    ("src/swap/file_tier/a.cc", "#include <liburing.h>\n#include <xxhash.h>\n", None),
    ("include/restow/io/a.h", "#pragma once\n#include <nlohmann/json.hpp>\n", "std and restow/"),
    ("src/io/a.cc", '#include "cpp/errors.h"\n', "no library may include it"),
    ("python/cpp/a.cc", '#include "io/limits.h"\n', "private to io"),
    ("cli/a.cc", "#include <pybind11/pybind11.h>\n", "home in python/cpp/"),
    ("include/restow/swap/a.h", "#pragma once\n#include <stdint.h>\n", "std and restow/"),
    ("include/restow/swap/c_api.h", "#pragma once\n#include <stdint.h>\n", None),
    ("src/swap/a.cc", '#include "restow/plan/planner.h"\n', "swap may not include plan"),
    ("src/io/a.cc", "#include <gtest/gtest.h>\n", "belongs in tests"),
    ("src/plan/a.cc", "#include <chrono>\n", "no clock"),
    ("src/plan/a.cc", 'auto x = std::getenv("X");\n', "no environment"),
    ("src/plan/A.cc", "\n", "snake_case"),
    ("src/plan/a.h", "int a;\n", "#pragma once"),
    ("src/plan/a.cc", "\n" * (LONGEST_FILE + 1), "lines"),
    ("src/plan/a.cc", "//" + "x" * WIDEST_LINE + "\n", "characters"),
    ("src/plan/a.cc", '#include "plan/shape.h"\n#include "restow/schema/job.h"\n', None),
    ("src/plan/a_test.cc", '#include "restow/io/read.h"\n#include <gtest/gtest.h>\n', None),
    ("src/io/a.cc", "#include <nlohmann/json.hpp>\n#include <unistd.h>\n", None),
    ("cli/a.cc", '#include <CLI/CLI.hpp>\n#include "cli/common.h"\n#include "restow/io/read.h"\n',
     None),
    ("python/cpp/a.cc",
     '#include <pybind11/stl.h>\n#include "cpp/errors.h"\n#include "restow/io/read.h"\n', None),
]


def self_test():
    for path, text, expected in PLANTED:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / path).parent.mkdir(parents=True)
            (root / path).write_text(text, encoding="utf-8")
            found = check_tree(root, width=True)
        caught = any(expected in line for line in found) if expected else not found
        if not caught:
            sys.exit(f"self-test: {path} with {text[:60]!r}: expected {expected!r}, got {found}")
    print(f"self-test: {len(PLANTED)} cases")


def main():
    arguments = sys.argv[1:]
    if "--self-test" in arguments:
        return self_test()
    width = "--width" in arguments
    roots = [argument for argument in arguments if argument != "--width"]
    root = pathlib.Path(roots[0]) if roots else pathlib.Path(__file__).resolve().parent.parent
    found = check_tree(root, width)
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
