# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 17 · Shipping
#
# After this chapter you can
#
# - put the two libraries of an operator into one wheel, and state for which Python, PyTorch, ONNX Runtime and Linux
#   it is;
# - find out what would keep a library from loading on another machine, before you send it there;
# - keep the models of last year running with the library of this year.
#
# Your operator works on your machine. This chapter is about all other machines. The next cell runs one library,
# compiled with the course's headers of ONNX Runtime 1.21, in three runtimes. The program `17_older_runtime`
# imitates the older ones: it hands out ONNX Runtime's real table of functions, cut to the older length.

# %%
import signal
import subprocess

import onnx

from oplab import lesson
from oplab.toolchain.build import compile_library

lab = lesson("17_shipping")
older_runtime = compile_library(lab.cpp("17_older_runtime.cpp"), "host")
last_year = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17, "lesson": 1]>
    last_year (float[n] a, float[n] b) => (float[n] y) { y = lesson.MyAdd(a, b) }""")
onnx.save(last_year, lab.build / "last_year.onnx")


def on_runtimes(name, *versions):
    library = compile_library(lab.cpp(name), "ort")
    for version in versions:
        command = [older_runtime, library, str(version), lab.build / "last_year.onnx"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        ended = signal.Signals(-done.returncode).name if done.returncode < 0 else ""
        print(f"ONNX Runtime 1.{version}: {done.stdout.strip() or 'ended by ' + ended}")


on_runtimes("17_unguarded.cpp", 31, 21, 20)

# %% [markdown]
# With 1.20 there is no message and no exception: the process is gone, with everything else that ran in it. Nothing in
# the library depends on a new feature. The cause is one line of its entry point, the one with `InitApi`:

# %%
lab.source("17_unguarded.cpp")

# %% [markdown]
# ## 1. Who loads what from where
#
# A wheel with an operator contains two libraries. Neither of them is complete: each uses functions that are in other
# files on the user's machine, in versions that you do not choose.

# %% {"jupyter": {"source_hidden": true}}
from oplab.figures.shipping import loading

lab.figure(
    loading(),
    "PyTorch loads my_add_torch.so, which needs libtorch_cpu.so by name. ONNX Runtime calls "
    "RegisterCustomOps in my_add_ort.so, which calls the functions of the table that it gets. "
    "Both need the system's C and C++ libraries by name and symbol version. A model asks "
    "my_add_ort.so for an operator of a domain.",
)

# %% [markdown]
# Each of these connections can fail on another machine, in its own way:
#
# | what has to fit | what decides | section |
# |---|---|---|
# | ONNX Runtime's table | the headers, and what the entry point asks for | 2 |
# | Python | the wheel's tag | 3 |
# | the system's libraries | symbol versions; names that you export; paths | 4 |
# | PyTorch's functions | `TORCH_TARGET_VERSION` | 5 |
# | the model | the names and versions of your operators | 6 |
#
# ## 2. ONNX Runtime's table
#
# `base->GetApi(21)` returns a pointer to the table `OrtApi`. Each release adds functions *at the end* of this table
# and never removes one. That gives two rules:
#
# - **Headers may be older than the runtime.** They describe the beginning of a table that has become longer. This is
#   why the course compiles with the headers of 1.21 and runs in 1.31.
# - **Headers must not be newer.** An older runtime does not have the table that they describe, and `GetApi` returns
#   null.
#
# The usual line is `GetApi(ORT_API_VERSION)`, where `ORT_API_VERSION` is the version of the headers. In the library
# above, `InitApi` stored the null pointer, and the first call through it ended the process.
#
# The guard is an `if`. Version 1 of the table exists in every runtime, so there is always a table that can create a
# status:

# %%
lab.diff("17_unguarded.cpp", "17_guarded.cpp")

# %%
on_runtimes("17_guarded.cpp", 31, 21, 20)

# %% [markdown]
# Now the user reads what is wrong. A status that a function returns to you is yours: return it once, or release it
# (`Ort::Status` does that).
#
# MyAdd needs no function that is new in 1.21: it *could* run in 1.20. You do not need older headers for that. Ask for
# an older table. (This is the first of two steps: the program here looks only at the table, and a real 1.20 would still
# refuse the op itself, as you will see below.)

# %%
lab.diff("17_guarded.cpp", "17_asks_for_less.cpp")

# %%
on_runtimes("17_asks_for_less.cpp", 31, 20, 17, 16, 15)

# %% [markdown]
# It crashes in 1.16. The headers are still those of 1.21, so the compiler accepts every function of 1.21. The kernel
# calls `ParallelFor`, which is new in 1.17, and reads its pointer from a place after the end of the table. (Our
# program has null pointers there; a real table has whatever comes next in memory. The comment of each function in
# `onnxruntime_c_api.h` has a line `\since Version 1.17`.)
#
# The finished entry point **negotiates**. It takes the newest table that both the headers and the runtime know,
# remembers the version, and refuses what is older than it supports: 1.16, because an op has `ComputeV2`, which returns a
# status, from there on. `GetVersionString` is next to `GetApi` and works in every runtime.

# %%
lab.source("17_negotiates.cpp", "RegisterCustomOps")

# %% [markdown]
# `add_domain` makes the ops known. An application may make sessions on several threads, so all of this may run on several
# threads at once. C++ makes a `static` variable of a function once, whichever thread comes first. That is why `InitApi`,
# which writes a global pointer, and `api_version` are in the initialiser of one.

# %%
lab.source("17_my_add.h", "add_domain")

# %% [markdown]
# The kernel calls a newer function only where it exists, and otherwise has another way to the same result:

# %%
lab.source("17_my_add.h", "struct Kernel")

# %%
on_runtimes("17_negotiates.cpp", 31, 20, 17, 16, 15)

# %% [markdown]
# There is a second version number, which is easy to overlook. An op is a struct, `OrtCustomOp`, with a member
# `version`. `Ort::CustomOpBase` sets it to `ORT_API_VERSION`, and a runtime refuses an op that is newer than itself.
# The program above does not check this; the real runtime does. So the op gets the negotiated version, too:

# %%
lab.source("17_my_add.h", "Sum(const char* name")

# %% [markdown]
# A version is also how you avoid a known fault of a runtime. The course's kernels use it for this: before 1.24, ONNX
# Runtime crashes when it infers the shapes of a node with an absent input.

# %%
from oplab import paths
from oplab.figures import listing

listing.source(paths.root() / "csrc" / "ort_ops" / "oplab_kernel.h", "void check_version")

# %% [markdown]
# ## 3. One wheel
#
# A wheel is an archive that pip unpacks. Nothing is compiled on the user's machine. (From here on the cells need
# Linux: its libraries are ELF files, and macOS has other linker options and another format.)
#
# A project for a wheel has a description, a build, a package and the C++. First the description. `scikit-build-core`
# lets pip call CMake; `wheel.py-api` is a part of the wheel's tag, which this section explains.

# %%
PYPROJECT = """\
[build-system]
requires = ["scikit-build-core", "torch>=2.13"]
build-backend = "scikit_build_core.build"

[project]
name = "my-add-ops"
version = "2.0"
requires-python = ">=3.10"

[project.optional-dependencies]
pytorch = ["torch>=2.13"]
onnxruntime = ["onnxruntime>=1.16"]

[tool.scikit-build]
build-dir = "build"
wheel.py-api = "py3"
wheel.packages = ["src/my_add_ops"]
"""

# %% [markdown]
# The build makes two libraries. Chapter 07 used setuptools; with CMake, users of your kernels can also build them
# without Python. There is no `find_package(Torch)`: the stable ABI needs two folders of headers and one library.
# Nothing tells CMake where the headers are, so pass `ORT_INCLUDE_DIR` and `TORCH_DIR`, as the cell that calls pip does.
# The list of exports is the subject of section 4.

# %%
CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(my_add_ops LANGUAGES CXX)
find_path(ORT_INCLUDE_DIR onnxruntime_cxx_api.h PATH_SUFFIXES onnxruntime REQUIRED)
find_path(TORCH_DIR include/torch/csrc/stable/library.h REQUIRED)

add_library(my_add_torch SHARED cpp/17_torch.cpp)
target_compile_features(my_add_torch PRIVATE cxx_std_20)
target_compile_definitions(my_add_torch PRIVATE TORCH_TARGET_VERSION=0x020d000000000000)
target_include_directories(my_add_torch SYSTEM PRIVATE
                           ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include)
target_link_libraries(my_add_torch PRIVATE ${TORCH_DIR}/lib/libtorch_cpu.so)

add_library(my_add_ort SHARED cpp/17_two_years.cpp)
target_compile_features(my_add_ort PRIVATE cxx_std_17)
target_compile_definitions(my_add_ort PRIVATE ORT_API_MANUAL_INIT)
target_include_directories(my_add_ort SYSTEM PRIVATE ${ORT_INCLUDE_DIR})

foreach(library my_add_torch my_add_ort)
  set_target_properties(${library} PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden)
  target_link_options(${library} PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/exports.map)
endforeach()
install(TARGETS my_add_torch my_add_ort LIBRARY DESTINATION my_add_ops)
"""
EXPORTS = """\
{
  global: RegisterCustomOps;
  local: *;
};
"""

# %% [markdown]
# The package. A machine that only runs models has no PyTorch. So `import my_add_ops` needs none, and `import
# my_add_ops.pytorch` does.

# %%
INIT = """\
from pathlib import Path

ort_library = Path(__file__).with_name("my_add_ort.so")
"""
PYTORCH = """\
from pathlib import Path

import torch

torch.ops.load_library(Path(__file__).with_name("my_add_torch.so"))
my_add = torch.ops.lab17.my_add


@torch.library.register_fake("lab17::my_add")
def _(a, b):
    return torch.empty_like(a, memory_format=torch.contiguous_format)
"""

# %% [markdown]
# Write these files and the C++ into a folder, and let pip build the wheel:

# %%
import shutil
import sys

from oplab.toolchain.headers import ort_include
from oplab.toolchain.recipes import torch_folder


def call(*words):
    done = subprocess.run([*map(str, words)], cwd=work, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


work, project = lab.fresh("work"), lab.fresh("project")
texts = {
    "pyproject.toml": PYPROJECT,
    "CMakeLists.txt": CMAKE,
    "exports.map": EXPORTS,
    "src/my_add_ops/__init__.py": INIT,
    "src/my_add_ops/pytorch.py": PYTORCH,
}
for name, text in texts.items():
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text(text)
(project / "cpp").mkdir()
for name in ("17_my_add.h", "17_two_years.cpp", "17_torch.cpp"):
    shutil.copy(lab.cpp(name), project / "cpp")
folders = {"ORT_INCLUDE_DIR": ort_include(), "TORCH_DIR": torch_folder()}
settings = [f"--config-settings=cmake.define.{name}={path}" for name, path in folders.items()]
offline = ["--no-build-isolation", "--no-deps", "--no-index", "--quiet"]
pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
call(*pip, "wheel", *offline, "--wheel-dir", project, *settings, project)
(wheel,) = project.glob("*.whl")
print("-".join(wheel.name.split("-")[:4]), " under 500 kB:", wheel.stat().st_size < 500_000)

# %%
import zipfile

print(*sorted(zipfile.ZipFile(wheel).namelist()), sep="\n")

# %% [markdown]
# Both libraries and two Python files. The name of a wheel ends with a tag of three parts: `py3` is the Python, `none`
# its ABI, and the last part (not printed, it depends on this machine) the platform. A library of chapter 07 was named
# after one version of Python. This wheel is for every Python 3, because the libraries contain no Python: PyTorch and
# ONNX Runtime load them, not `import`.
#
# Install it into an empty folder, and use it in two new processes. The first one has no PyTorch:

# %%
import os

site = lab.fresh("site")
call(*pip, "install", "--no-deps", "--no-index", "--quiet", "--target", site, wheel)
IN_ORT = """
import sys
import numpy as np, onnxruntime, my_add_ops

options = onnxruntime.SessionOptions()
options.register_custom_ops_library(str(my_add_ops.ort_library))
session = onnxruntime.InferenceSession(sys.argv[1], options)
feeds = {name.name: np.ones(3, np.float32) for name in session.get_inputs()}
print(session.run(None, feeds)[0], " PyTorch is loaded:", "torch" in sys.modules)
"""
IN_TORCH = """
import torch
from my_add_ops.pytorch import my_add

print(my_add(torch.ones(3), torch.ones(3)))
"""


def in_a_process(code, *arguments):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(
        command, cwd=site, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


print("ONNX Runtime:", in_a_process(IN_ORT, lab.build / "last_year.onnx"))
print("PyTorch:     ", in_a_process(IN_TORCH))

# %% [markdown]
# ### In other versions
#
# This environment has one ONNX Runtime and one PyTorch. A test of the course installs this wheel, built from the
# cells above, into new environments with other versions:
#
# ```sh
# python -m pytest tests/lessons/test_c17_other_versions.py
# ```
#
# It needs a network. In the real ONNX Runtime 1.16, 1.20, 1.21, 1.23 and 1.32 it runs `MyAdd` of this wheel; it shows
# that `17_guarded` refuses 1.20 with its sentence, that `17_unguarded` ends the process there, and that
# `17_asks_for_less` is refused because of the `version` of its op. `OPLAB_OTHER_TORCH=FOLDER` names a folder with
# another PyTorch; with 2.13, the same wheel runs there.
#
# ## 4. What would keep it from loading elsewhere
#
# A library for Linux is an ELF file. It contains a list of what it needs, which you can read without loading it.
# `readelf -d` and `nm -D` print this list; pyelftools reads it in Python.

# %%
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection


def read(library):
    """What a library needs and offers, and where it looks."""
    with open(library, "rb") as stream:
        elf = ELFFile(stream)
        found = {"needed": [], "runpath": [], "undefined": [], "exported": [], "versions": []}
        for tag in elf.get_section_by_name(".dynamic").iter_tags():
            if tag.entry.d_tag == "DT_NEEDED":
                found["needed"].append(tag.needed)
            elif tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH"):
                found["runpath"].append(getattr(tag, tag.entry.d_tag[3:].lower()))
        for symbol in elf.get_section_by_name(".dynsym").iter_symbols():
            if symbol.name:
                missing = symbol.entry.st_shndx == "SHN_UNDEF"
                found["undefined" if missing else "exported"].append(symbol.name)
        for section in elf.iter_sections():
            if isinstance(section, GNUVerNeedSection):
                for _, names in section.iter_versions():
                    found["versions"] += [name.name for name in names]
    return found


libraries = {
    name: read(site / "my_add_ops" / name) for name in ("my_add_torch.so", "my_add_ort.so")
}
for name, found in libraries.items():
    own = [other for other in found["needed"] if "torch" in other or "onnx" in other]
    python = [symbol for symbol in found["undefined"] if symbol.lstrip("_").startswith("Py")]
    print(f"{name:16} needs of the packages: {own}, of Python: {python}")
    print(f"{'':16} exports: {found['exported']}, paths: {found['runpath']}")
    assert not python and not found["runpath"]

# %% [markdown]
# Read it line by line.
#
# - **Of the packages**: `libtorch_cpu.so`, by its name without a folder. It is found because `import torch` has
#   loaded a library of that name already; the next cell tries it without. ONNX Runtime is not in the list: its
#   functions come in the table.
# - **Of Python**: nothing. This is the proof of the tag `py3-none`.
# - **Exports**: only what others look up by its name. PyTorch looks up nothing: its library registers itself when it
#   is loaded.
# - **Paths**: none. More about exports and paths below.

# %%
LOAD = """
import ctypes, sys

try:
    print(ctypes.CDLL(sys.argv[1]).doubled(21))
except OSError as error:
    print(str(error).split(": ", 1)[0], "cannot be found")
"""
print(in_a_process(LOAD, site / "my_add_ops" / "my_add_torch.so"))

# %% [markdown]
# ### The system: manylinux
#
# The system's C and C++ libraries are on every Linux, in other versions. Their symbols have versions: a library that
# was linked on a new system may need `memcpy@GLIBC_2.14` or `std::…@GLIBCXX_3.4.29`, and does not load where the
# newest is older. The newest of these versions is what counts. A tag such as `manylinux_2_28` promises two things: no
# symbol that is newer than glibc 2.28 and the compiler of its time, and no library but those on a short list that
# every Linux has. `auditwheel show` compares a wheel with these lists:

# %%
import json

audit = [sys.executable, "-m", "auditwheel", "show", "--json", wheel]
done = subprocess.run([*map(str, audit)], capture_output=True, text=True)
report = json.loads(done.stdout)


def newest(found):
    """GLIBC_2.32 for a library that needs nothing newer of glibc."""
    names = [name for name in found["versions"] if name.startswith("GLIBC_")]
    return max(names, key=lambda name: tuple(map(int, name[6:].split("."))))


for name, found in libraries.items():
    print("⏱", name, "needs", newest(found))
print("⏱ the symbols fit", report["sym_tag"])
print("the wheel fits", report["overall_tag"].split("_")[0], report["external_libs"])

# %% [markdown]
# What happens on an older system? A copy of the library, in which every digit of that newest version is a 9, comes
# from the future for this machine:

# %%
import re

needed = newest(libraries["my_add_ort.so"])
later = re.sub(r"\d", "9", needed)
content = (site / "my_add_ops" / "my_add_ort.so").read_bytes()
(lab.build / "future.so").write_bytes(content.replace(needed.encode(), later.encode()))
command = [sys.executable, "-c", "import ctypes; ctypes.CDLL('./future.so')"]
done = subprocess.run(command, cwd=lab.build, capture_output=True, text=True)
wanted = f"version `{later}' not found (required by ./future.so)"
print(
    "loaded:",
    done.returncode == 0,
    " the message names version and library:",
    wanted in done.stderr,
)

# %% [markdown]
# The symbols of the wheel fit a tag, and the wheel itself does not: `libtorch_cpu.so` is not on the list of any Linux.
# `linux` means "for this machine", and PyPI rejects a wheel with this tag. You know that PyTorch brings the file, so
# tell auditwheel:
#
# ```sh
# auditwheel repair --exclude libtorch_cpu.so my_add_ops-2.0-py3-none-linux_x86_64.whl
# ```
#
# `repair` writes a wheel with the tag of the symbols. Any *other* library that is not on the list is copied into the
# wheel, and the paths are changed so that the copy is found. It needs the program `patchelf`, which is why the next
# cell may only print that it is missing. To get an older tag than that of your machine, compile on an older system:
# the `manylinux` images of the Python packaging authority are such systems.

# %%
repair = [sys.executable, "-m", "auditwheel", "repair", "--exclude", "libtorch_cpu.so"]
repaired = lab.fresh("repaired")
if shutil.which("patchelf"):
    call(*repair, "--wheel-dir", repaired, wheel)
    print("⏱", *(path.name for path in repaired.glob("*.whl")))
else:
    print("⏱ there is no patchelf here: the wheel keeps its tag")

# %% [markdown]
# ### Names that leak
#
# Two settings keep the exports short: hidden visibility for our own code, and `exports.map` for all the rest, such as
# `std::` templates. What happens without them? Take a helper of a few lines that two libraries use, each in its own
# release. The helper keeps a number in a static variable:

# %%
lab.source("17_scaling.h")

# %% [markdown]
# `17_scaling.cpp` is compiled twice, without hidden visibility, with release 1 and release 2 of the helper. Its `MyAdd`
# multiplies by the helper's number, so release 1 has to return 1, and release 2 has to return 2. Both are registered in
# one process, in two sessions and for two domains.

# %%
from oplab.toolchain.compiler import find_compiler
from oplab.toolchain.recipes import recipe

compiler, how = find_compiler(), recipe("ort")


for release in (1, 2):
    source = ["-c", f"-DRELEASE={release}", lab.cpp("17_scaling.cpp"), "-o", f"{release}.o"]
    call(*compiler.command, *how.flags, *source)
    call(*compiler.command, "-shared", f"{release}.o", "-o", f"leaky{release}.so")
    call(*compiler.command, f"{release}.o", *how.link, "-o", f"closed{release}.so")

# %%
BOTH = """
import sys
import numpy as np, onnxruntime

one = {name: np.ones(1, np.float32) for name in "ab"}
sessions = []  # a session keeps its library loaded
for library, model in zip(sys.argv[1:3], sys.argv[3:]):
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(library)
    sessions.append(onnxruntime.InferenceSession(model, options))
    print(sessions[-1].run(None, one)[0], end=" ")
"""
models = []
for release in (1, 2):
    model = onnx.ModelProto()
    model.CopyFrom(last_year)
    model.graph.node[0].domain = model.opset_import[1].domain = f"release{release}"
    models.append(lab.build / f"release{release}.onnx")
    onnx.save(model, models[-1])
for kind in ("leaky", "closed"):
    files = [work / f"{kind}{release}.so" for release in (1, 2)]
    leaks = any("scaling" in name for name in read(files[0])["exported"])
    values = in_a_process(BOTH, *files, *models)
    print(f"{kind:7} releases 1 and 2: {values}  exports the helper: {leaks}")

# %% [markdown]
# The second library computes with the first library's number. Both have an inline function `scaling()` with a static
# variable. C++ requires such a variable to be one object in the whole program. g++ marks it as *unique* (the letter `u` in
# the output of `nm -D`), and Linux's loader then uses one object for all libraries, even for those that are loaded
# separately. clang does not mark it, and each library has its own. There is no warning, and each library alone passes
# its tests. Two libraries of *different* authors that contain different releases of one header have the same problem.
#
# The object files of both pairs are the same. `how.link` adds the list of exports: only `RegisterCustomOps` is
# visible, and each library uses its own variable.
#
# ### Paths
#
# CMake links the library in its build folder so that you can use it there: it writes the absolute path of
# `libtorch_cpu.so` into it.

# %%
(built,) = (project / "build").rglob("my_add_torch.so")
inside = [str(torch_folder()) in path for path in read(built)["runpath"]]
print("the path of this machine in the build folder:", inside)
print("in the wheel:", libraries["my_add_torch.so"]["runpath"])

# %% [markdown]
# `install` in CMakeLists.txt removes the path. If you copy the file from the build folder into a wheel, it works for
# you only, and worse: on another machine, a folder of that name may exist, with another library in it.
#
# ## 5. Versions of PyTorch
#
# `TORCH_TARGET_VERSION` is the oldest PyTorch that has to load the library. The headers hide everything that is
# newer. This file uses a function of 2.14, and the course's flags say 2.13:

# %%
lab.source("17_newer.cpp")

# %%
from oplab.toolchain.build import BuildFailed

try:
    compile_library(lab.cpp("17_newer.cpp"), "torch")
except BuildFailed as error:
    print(f"line {error.line}:", error.message.split("error: ")[-1])
else:
    raise AssertionError("it compiles")

# %% [markdown]
# The compiler finds it, on your machine. Without the flag, or with a newer version in it, the same file compiles, and
# fails when 2.13 loads it: `undefined symbol: torch_has_storage` (the test of section 3 shows this, too).

# %%
how_torch = recipe("torch")
old = "-DTORCH_TARGET_VERSION=0x020d000000000000"
flags = [flag.replace("0x020d", "0x020f") if flag == old else flag for flag in how_torch.flags]
assert flags != [*how_torch.flags]
call(*compiler.command, *flags, lab.cpp("17_newer.cpp"), *how_torch.link, "-o", "newer.so")
names = [name for name in read(work / "newer.so")["undefined"] if name.startswith("torch_has")]
print("newer.so needs", names)

# %% [markdown]
# So choose the oldest version that you support, write it in one place, and repeat it in `pyproject.toml`: pip reads
# `torch>=2.13` and CMake reads `0x020d`, and neither knows about the other.
#
# ## 6. A model of last year
#
# Models outlive libraries. Last year, version 1.0 of your package had `MyAdd`, 3a + 2b. This year it has to be 2a +
# b. The tempting update changes the operator:

# %%
import numpy as np

from oplab import raises, session

ones = {"a": np.ones(1, np.float32), "b": np.ones(1, np.float32)}


def result(model, library):
    return session(model, libraries=[library]).run(None, ones)[0]


changed = compile_library(lab.cpp("17_changed.cpp"), "ort")
print("the model of last year:", result(last_year, changed), " it was 5")

# %% [markdown]
# The old model loads, runs and returns something else. The version of the domain is in the model (`"lesson": 1`), so
# can the library register both, `MyAdd` until version 1 and another `MyAdd` from version 2 on? Chapter 12 tried it
# ("Domains and versions"): ONNX Runtime keeps one schema for each name, and one of the two models gets the wrong
# kernel or none.
#
# What works is a **new name**, registered next to the old one. `start_ver_`, the last argument, is the version of the
# domain in which it exists:

# %%
lab.diff("17_negotiates.cpp", "17_two_years.cpp")

# %%
this_year = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17, "lesson": 2]>
    this_year (float[n] a, float[n] b) => (float[n] y) { y = lesson.MyAdd2(a, b) }""")
new = site / "my_add_ops" / "my_add_ort.so"
old = compile_library(lab.cpp("17_negotiates.cpp"), "ort")
print("last year's model, this year's library:", result(last_year, new))
print("this year's model, this year's library:", result(this_year, new))
with raises(Exception, "lesson:MyAdd2(-1) is not a registered function/op"):
    result(this_year, old)

# %% [markdown]
# The last line is what you want: a new model with an old library is an error when it is loaded, not a wrong number.
# Compare this with a new *attribute* of the old operator. An old library does not know the attribute and ignores it:

# %%
scaled = onnx.ModelProto()
scaled.CopyFrom(last_year)
scaled.graph.node[0].attribute.append(onnx.helper.make_attribute("alpha", 100.0))
print("alpha = 100:", result(scaled, old))

# %% [markdown]
# So there are three rules for an operator that others use:
#
# 1. Its name and version mean one thing, always.
# 2. A change of meaning gets a new name, and the old one stays in the library.
# 3. A new attribute is a change of meaning, too, unless every library that may run the model knows it.
#
# Keep one small model of each year in your tests, with its inputs and outputs. A test that runs it finds a broken
# rule.
#
# ## 7. Exercises
#
# **`version_guard`** in [exercises/csrc/c17_version_guard.cpp](../exercises/csrc/c17_version_guard.cpp#line=30): three
# faults, which one session does not show.

# %%
lab.check("version_guard")

# %% [markdown]
# **`abi_symbols`** in [exercises/c17_shipping.py](../exercises/c17_shipping.py#line=54): find in a library what would
# keep it from loading elsewhere. Begin with `read()` of section 4, and print what it leaves out. An inline function is
# a *weak* symbol: several libraries may define it. In `st_info`, the binding of a symbol that others see is global,
# weak or unique (`STB_LOOS` in pyelftools), and its type is function, object or thread-local (`STT_TLS`). Most versions
# are numbers, such as `GLIBC_2.34`; `GLIBC_PRIVATE` is one that only the C library itself may ask for. A folder of the
# rpath or runpath may begin with `$ORIGIN`, the library's own folder.

# %%
lab.check("abi_symbols")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Newer functions only where they exist
#
# **`one_library_many_runtimes`** in
# [exercises/csrc/c17_one_library_many_runtimes.cpp](../exercises/csrc/c17_one_library_many_runtimes.cpp#line=95):
# it runs in two versions. In which ones does it fail?

# %%
lab.check("one_library_many_runtimes")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: A library next to yours
#
# Sometimes your library needs another one that you ship as well: a library of a vendor, or code that both of your
# libraries share. Here is the smallest example, compiled in one folder and moved to another, as a wheel does:

# %%
lab.source("17_user.cpp")

# %%
here = lab.fresh("here")
runpaths = {
    "none": [],
    "absolute": [f"-Wl,-rpath,{here}"],
    "origin": ["-Wl,-rpath,$ORIGIN"],
}
call(
    *compiler.command, "-shared", "-fPIC", lab.cpp("17_helper.cpp"), "-o", here / "libhelper.so"
)
for name, flags in runpaths.items():
    user = ["-shared", "-fPIC", lab.cpp("17_user.cpp"), "-o", here / f"user_{name}.so"]
    call(*compiler.command, *user, f"-L{here}", "-lhelper", *flags)
there = lab.build / "there"
shutil.rmtree(there, ignore_errors=True)
here.rename(there)
for name in runpaths:
    print(f"{name:9}", in_a_process(LOAD, there / f"user_{name}.so"))

# %% [markdown]
# The loader looks in `LD_LIBRARY_PATH`, in the folders of the *runpath*, and in the system's folders. (An *rpath*, its older
# form, comes before `LD_LIBRARY_PATH`.) It does not look in the folder of the library that needs the other one, unless the
# runpath is `$ORIGIN`, which means this folder. `csrc/host/CMakeLists.txt` sets it for the course's program.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: abi3, for libraries that use Python
#
# The wheel of section 3 contains no Python. A module that Python imports does, for example one that is made with
# pybind11 or by hand:

# %%
lab.source("17_module.cpp")

# %%
import importlib.machinery

MODULE = """\
from setuptools import Extension, setup

extension = Extension(
    name="total",
    sources=["total.cpp"],
    define_macros=[("Py_LIMITED_API", "0x030a0000")],
    py_limited_api=True,
)
options = {"bdist_wheel": {"py_limited_api": "cp310"}}
setup(name="total", version="1.0", ext_modules=[extension], options=options)
"""
folder = lab.fresh("module")
shutil.copy(lab.cpp("17_module.cpp"), folder / "total.cpp")
(folder / "setup.py").write_text(MODULE)
call(*pip, "wheel", *offline, "--wheel-dir", folder, folder)
(made,) = folder.glob("*.whl")
with zipfile.ZipFile(made) as archive:
    (member,) = [name for name in archive.namelist() if name.endswith(".so")]
    archive.extract(member, folder)
print("-".join(made.name.split("-")[:4]), "with", member)
print(sorted(name for name in read(folder / member)["undefined"] if name.startswith("Py")))
USE = (
    "import sys; sys.path.insert(0, sys.argv[1]); import total; print(total.total([1.0, 2.5]))"
)
print(in_a_process(USE, folder))

# %% [markdown]
# Python imports a file only if its name ends in one of these suffixes. `.abi3.so` is for any version, the longest one
# for this version only:

# %%
print("⏱", importlib.machinery.EXTENSION_SUFFIXES)

# %% [markdown]
# What is in the name is a promise. `Py_LIMITED_API` makes the compiler keep it: it hides everything from `Python.h`
# that is not in the **stable ABI** of Python 3.10, such as the macros that read a list's memory directly. What
# compiles needs only functions that every later Python 3 has, and the tag `cp310-abi3` states it. (That is Python's
# promise. There is one Python here, so the lesson does not try another.)

# %%
import sysconfig

macro = work / "macro.cpp"
macro.write_text("""#include <Python.h>
PyObject* first(PyObject* list) { return PyList_GET_ITEM(list, 0); }
""")
include = sysconfig.get_paths()["include"]
for flags in ([], ["-DPy_LIMITED_API=0x030a0000"]):
    command = [*compiler.command, *flags, "-c", f"-I{include}", macro, "-o", work / "macro.o"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    print("limited" if flags else "full   ", "API, the macro compiles:", done.returncode == 0)

# %% [markdown]
# So there are three kinds of wheels with compiled code:
#
# | tag | for | when |
# |---|---|---|
# | `py3-none-PLATFORM` | every Python 3 | no library uses Python's C functions (this chapter) |
# | `cp310-abi3-PLATFORM` | Python 3.10 and newer | they use the limited API |
# | `cp311-cp311-PLATFORM` | one version | they use anything else, such as pybind11 |

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Builds without a library to load
#
# On some systems a program may not load a file of code while it runs, as in many mobile builds. Then the kernels are
# linked into the program, from a static archive, and there are two ways to register them. The program calls the entry
# point itself, or it gives ONNX Runtime the *name* of the function: `RegisterCustomOpsUsingFunction`.

# %%
lab.source("17_in_process.cpp", "int main")

# %%
from oplab.toolchain.recipes import recipe

program_link = recipe("host").link
archive = ["-c", lab.cpp("17_two_years.cpp"), "-o", "kernels.o"]
call(*compiler.command, *how.flags, *archive)
call("ar", "rcs", "libkernels.a", "kernels.o")
for way, flags in (("calls", []), ("by_name", ["-DBY_NAME"])):
    source = ["-c", lab.cpp("17_in_process.cpp"), "-o", f"{way}.o"]
    call(*compiler.command, *how.flags, *flags, *source)


def program(way, *flags):
    linked = [f"{way}.o", *flags, "libkernels.a", *program_link, "-o", "program"]
    call(*compiler.command, *linked)
    command = [work / "program", lab.build / "last_year.onnx"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600)
    words = done.stdout.strip().split(": ")[-2:]
    print(f"{way} {' '.join(flags)}: {': '.join(words)}")


program("calls")
program("by_name")
program("by_name", "-rdynamic")
program("by_name", "-rdynamic", "-Wl,-u,RegisterCustomOps")

# %% [markdown]
# - **Calling it** works everywhere. The call is also what makes the linker take the kernels out of the archive.
# - **By name** fails twice. A program does not export its functions unless it is linked with `-rdynamic`. And the
#   linker takes from an archive only what some other object file needs: here, none names `RegisterCustomOps`, so the
#   kernels are not in the program at all. `-u` asks for the name.
#
# The source of the kernels is the one in the wheel.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Weights and models in the package
#
# A package often contains a model, with its weights in a second file. What if one of the files is damaged on its way,
# or replaced?

# %%
import hashlib

delivered = lab.fresh("delivered")
rows = np.arange(256, dtype=np.float32)
weights = onnx.numpy_helper.from_array(rows, "w")
add = onnx.helper.make_node("Add", ["x", "w"], ["y"])
ports = [onnx.helper.make_tensor_value_info(name, 1, [256]) for name in "xy"]
graph = onnx.helper.make_graph([add], "weights", ports[:1], ports[1:], [weights])
opsets = [onnx.helper.make_opsetid("", 17)]
model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
external = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
onnx.save(model, delivered / "model.onnx", **external)


def digests(folder, *names):
    """The SHA-256 of each file."""
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}


def first(folder):
    zeros = np.zeros(256, np.float32)
    return session(folder / "model.onnx").run(None, {"x": zeros})[0][3]


listed = digests(delivered, "model.onnx", "weights.bin")
print("delivered:", first(delivered))
content = bytearray((delivered / "weights.bin").read_bytes())
content[3 * 4 + 3] ^= 2  # one bit, in the exponent of a number
(delivered / "weights.bin").write_bytes(content)
print("damaged:  ", first(delivered))
now = digests(delivered, *listed)
print("differs from the list:", [name for name in listed if now[name] != listed[name]])

# %% [markdown]
# ONNX Runtime loads what is there. The *list of digests* finds the file. A wheel has such a list already, `RECORD`,
# with a SHA-256 for each of its files. After the installation, pip does not look at it again. You can:

# %%
import base64
import csv


def differs(site):
    """The installed files of the package that differ from RECORD."""
    (record,) = site.glob("my_add_ops-*.dist-info/RECORD")
    found = []
    for name, digest, _ in csv.reader(record.read_text().splitlines()):
        if digest:
            now = hashlib.sha256((site / name).read_bytes()).digest()
            same = base64.urlsafe_b64encode(now).rstrip(b"=").decode()
            found += [name] if digest != f"sha256={same}" else []
    return found


copy = lab.build / "copy"
shutil.rmtree(copy, ignore_errors=True)
shutil.copytree(site, copy)
print("as installed:", differs(copy))
with open(copy / "my_add_ops" / "my_add_ort.so", "ab") as stream:
    stream.write(b"something")
print("changed:     ", differs(copy))

# %% [markdown]
# A list finds damage. It does not find an attacker, who replaces the file *and* the list. Against that, the list is
# **signed**: only the owner of a private key can make a signature, and anyone with the public key can verify it.
# OpenSSH can sign any file; without `ssh-keygen`, the cell does nothing.

# %%
listing_file = delivered / "files.json"
listing_file.write_text(json.dumps(listed, indent=1))


def sign_and_verify():
    """Sign the list, verify it, change it, verify it again: a sentence."""
    key, signers = delivered / "key", delivered / "signers"
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lesson", "-f", key]
    sign = ["ssh-keygen", "-Y", "sign", "-q", "-f", key, "-n", "models", listing_file]
    call(*make)
    call(*sign)
    signers.write_text("lesson " + (delivered / "key.pub").read_text())
    verify = ["ssh-keygen", "-Y", "verify", "-f", signers, "-I", "lesson", "-n", "models"]
    verify = [*map(str, verify), "-s", f"{listing_file}.sig"]
    texts = [listing_file.read_bytes(), json.dumps(now, indent=1).encode()]
    codes = [
        subprocess.run(verify, input=text, capture_output=True).returncode for text in texts
    ]
    assert codes[0] == 0 and codes[1] != 0
    return "the signed list is accepted, and a changed list is refused"


print("⏱", sign_and_verify() if shutil.which("ssh-keygen") else "there is no ssh-keygen here")

# %% [markdown]
# A digest of the library belongs in the same list: a model whose operator has another meaning (section 6) is as wrong
# as a model with other weights.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Plugin execution providers
#
# An *execution provider* runs parts of a graph, for example on a GPU. Until ONNX Runtime 1.21, each of them was
# compiled together with ONNX Runtime or was a library of its package. From 1.22 on, it can be a library that is registered
# at run time, as your kernels are: a **plugin execution provider**. Your operator is one kernel for the CPU provider; a plugin provider
# chooses nodes, compiles or runs them, and manages memory on its device.
#
# Can you write a minimal one with the headers of this course? Search them:

# %%
headers = [path for path in ort_include().rglob("*.h")]
for word in ("OrtCustomOp", "RegisterCustomOps", "OrtEpFactory", "CreateEpFactories"):
    files = sorted(path.name for path in headers if word in path.read_text(errors="replace"))
    print(f"{word:18} {', '.join(files) or 'in no header'}")

# %% [markdown]
# No. A provider is a struct `OrtEpFactory` of function pointers, and these headers, of 1.21, do not define it. With a
# guessed struct, the runtime would call the wrong functions. But the way in is the same as that of your kernels, and
# that much you can try: ONNX Runtime loads the file, looks up one C function by its name, and passes the base of its
# tables.

# %%
lab.source("17_plugin.cpp")

# %%
import onnxruntime

plugin = work / "plugin.so"
flags = [flag for flag in how.flags if flag != "-Wextra"]
call(*compiler.command, *flags, "-shared", lab.cpp("17_plugin.cpp"), "-o", plugin)
with raises(Exception, "my_provider: room for"):
    onnxruntime.register_execution_provider_library("my_provider", str(plugin))
try:
    onnxruntime.register_execution_provider_library("my_provider", str(new))
except Exception as error:  # the message names a folder of this machine
    print(type(error).__name__, "…", str(error).split(": ")[-2:])
else:
    raise AssertionError("a library of kernels was taken for a provider")
print([device.ep_name for device in onnxruntime.get_ep_devices()])

# %% [markdown]
# The sentence of `17_plugin.cpp` came back, so the runtime has called it. To go on, you need newer headers, and they
# bring the rule of section 2 with them: the library then needs a runtime that has their table.
#
# Choose a custom operator for a computation that ONNX does not have, and a provider for a *device* that ONNX Runtime
# does not have.

# %% [markdown]
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - [docs/your_operator.md](../docs/your_operator.md): `oplab new-operator NAME` creates a project that
#   builds such a wheel, with torch as an extra. The page takes one operator from its formula to another environment.
# - `onnxruntime_c_api.h`: the comment above each function names the version that has it. `torch/csrc/stable/c/shim.h`
#   has a section for each version of PyTorch.
# - PEP 600 defines the tags `manylinux_2_28` and so on; PEP 425 defines `py3-none` and `cp310-abi3`.
# - [docs/host.md](../docs/host.md): the course's C++ program, with kernels from a library and with kernels that are
#   linked in.
#
# Previous: [16: Capstone](16_capstone.ipynb)
# · Next: [18: One operator, several engines](18_four_engines.ipynb)
# · [Glossary](../docs/glossary.md)
