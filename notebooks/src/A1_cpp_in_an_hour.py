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
# # A1 · C++ in an hour
#
# The operators of chapters 07, 12 to 14 and 16 to 19 are written in C++. This appendix is for you if you know Python and have
# not written C++ yet. It explains what those chapters use, and nothing else. After it you can
#
# - read and write a function that works on arrays, and call it from Python;
# - say what the compiler checks, what a sanitizer checks, and what is not checked at all;
# - let a class own memory, and keep exceptions inside of your library.

# %%
import ctypes

import numpy as np

from oplab import lesson
from oplab.toolchain.build import compile_library

lab = lesson("A1_cpp_in_an_hour")
scale = ctypes.CDLL(str(compile_library(lab.cpp("A1_scale.cpp"), "cpp"))).scale
scale.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_float]
scale.restype = None

x = np.arange(5, dtype=np.float32)
y = np.empty_like(x)
scale(x.ctypes.data, y.ctypes.data, x.size, 2.5)
print(y)

# %% [markdown]
# This cell compiled a file of C++, loaded the result into Python, and called a function in it. Here is the file:

# %%
lab.source("A1_scale.cpp")

# %% [markdown]
# ## 1. A function, line by line
#
# - `#include <cstdint>` makes the names of a **header** known, here `int64_t`, an integer of 64 bits. Without it, the
#   compiler does not know the name. There is no `import` at run time: the text of the header becomes part of the file.
# - `void` is the type of the result: there is none. Each variable, each parameter and each result has a type, which never
#   changes, and the compiler knows it.
# - `const float* in` is a **pointer**: an address in memory, where a `float` (32 bits, as `np.float32`) is stored. `in[i]`
#   is the float that is `i` places after it. A pointer does not know how many floats there are, so `count` is
#   another parameter. `const` means that this function only reads through the pointer.
# - `for (int64_t i = 0; i < count; ++i)` runs with `i` from 0 to `count - 1`. `++i` adds 1.
# - A statement ends with a semicolon, a block is in braces, and indentation is only for people.
# - The condition of an `if` is in parentheses: `if (count < 0 || low > high) return 1;`. `||` is Python's `or`, `&&` is `and`,
#   `!found` is `not found`, and `c ? a : b` is `a if c else b`.
# - Names of the standard library begin with `std::`. With `#include <cmath>`, `std::isnan(x)` tests for a NaN.
# - `extern "C"` keeps the name `scale` as it is; section 5 shows what happens without it.
#
# `ctypes` is the part of Python that calls such a function. It has to be told the types of the arguments (`argtypes`)
# and of the result (`restype`): the compiled library does not contain them. `x.ctypes.data` is the address of the first
# element of an array.

# %% [markdown]
# ## 2. What the compiler checks
#
# Python finds a misspelt name when the line runs. C++ is translated before it runs, by a **compiler**, and the compiler
# rejects a name that it does not know and a type that does not fit.

# %%
lab.diff("A1_scale.cpp", "A1_typo.cpp")

# %%
import re

from oplab.toolchain.build import BuildFailed

try:
    compile_library(lab.cpp("A1_typo.cpp"), "cpp")
except BuildFailed as error:
    found = re.findall(r"A1_typo\.cpp:(\d+):\d+: error", error.full_log)
    lines = sorted({int(line) for line in found})
    print("rejected; the messages name the lines", lines)
assert lines == [6, 7]

# %% [markdown]
# Line 6 uses a name that does not exist. Line 7 writes through a pointer to `const`. Nothing was executed, and there is
# no library. Print `error` to read the messages: start with the first one, since later ones often follow from it.
#
# Two steps turn a file into a library. **Compiling** translates one file into an object file, and **linking** joins object
# files and resolves the names that they use from each other. "undefined reference" or "undefined symbol" is the linker's
# message: a function was declared, and no file that was linked contains it.

# %% [markdown]
# ## 3. What is not checked
#
# `values[3]` of a list of three is an `IndexError` in Python. In C++ nothing checks an index:

# %%
lab.source("A1_past_the_end.cpp")

# %% {"jupyter": {"source_hidden": true}}
from oplab.figures.memory import array

lab.figure(
    array([1, 2, 3], "values"),
    "Three floats in a row, 4 bytes each. The pointer values leads to the first. The cell "
    "values[3] after them is not in the array.",
)

# %% [markdown]
# `i <= count` is one step too many: `sum` reads a fourth float, which is not there. The C++ standard calls this **undefined
# behaviour**: the program may return the right sum, return a wrong one, crash, or do something else tomorrow. It often works
# on the machine of its author. So do not find out by trying. Compile it with **AddressSanitizer**, which checks each
# access while the program runs, and run it in a separate process:

# %%
import subprocess
import sys

from oplab.toolchain.build import sanitizer_env
from oplab.toolchain.findings import sanitizer_finding


def call_with_sanitizer(name, call):
    library = compile_library(lab.cpp(name), "cpp", sanitize=True)
    code = f"import ctypes, sys; ctypes.CDLL(sys.argv[1]).{call}"
    command = [sys.executable, "-c", code, str(library)]
    done = subprocess.run(command, env=sanitizer_env(), capture_output=True, text=True)
    return sanitizer_finding(done.stderr, lab.cpp(name))


finding = call_with_sanitizer("A1_past_the_end.cpp", "try_sum()")
print(finding)
assert "heap-buffer-overflow" in finding

# %% [markdown]
# The finding names the line. `oplab check cA1.clamp --sanitize` does the same for an exercise. The grader does a part of it
# by itself: it puts your arrays next to memory that cannot be read, so a step too many ends the process.
#
# An index is not the only way to undefined behaviour. A signed integer that becomes too large is another one, and here the
# compiler uses it. What is `x + 1 > x` for the largest `int`?

# %%
lab.source("A1_overflow.cpp")

# %%
greater = ctypes.CDLL(str(compile_library(lab.cpp("A1_overflow.cpp"), "cpp"))).next_is_greater
greater.restype = ctypes.c_bool
largest = 2**31 - 1
print("2147483647 + 1 > 2147483647:", greater(largest))
finding = call_with_sanitizer("A1_overflow.cpp", f"next_is_greater({largest})")
print(finding)
assert "signed integer overflow" in finding

# %% [markdown]
# An `int` of 32 bits cannot hold 2147483648. The compiler may assume that this never happens, so it replaced the whole
# function by `return true`. The sanitizer reports the overflow. For sizes and indices of tensors use `int64_t`.

# %% [markdown]
# ## 4. Copies, references, pointers
#
# In Python a name refers to an object, and passing it on copies nothing. In C++ a variable *is* the object, and passing
# it copies it, unless you say otherwise:

# %%
lab.source("A1_arguments.cpp")

# %%
arguments = ctypes.CDLL(str(compile_library(lab.cpp("A1_arguments.cpp"), "cpp")))
print(arguments.pass_it_on(1))
assert arguments.pass_it_on(1) == 1101

# %% [markdown]
# - `int number` is a copy: the 10 is lost.
# - `int& number` is a **reference**, another name for the caller's variable. It always refers to one, and is used like it.
# - `int* number` is a pointer. `&number` is the address of a variable, and `*number` is what is at the address. A pointer may
#   be `nullptr`, the address of nothing; reading through it is undefined behaviour, and usually the process ends.
#
# `const Tensor& x`, which you will see in every kernel, is a reference that is only read: no copy is made, and the
# compiler rejects a change.
#
# C has no references, so a function with a C interface takes pointers. C++ code inside of a library takes references where
# there is always an object, and pointers where there may be none.

# %% [markdown]
# ## 5. Names, symbols and the ABI
#
# Two functions of one name may take different types, and a **namespace** groups names, as a module does in Python:

# %%
lab.source("A1_names.cpp")

# %%
names = ctypes.CDLL(str(compile_library(lab.cpp("A1_names.cpp"), "cpp")))
for name in ["plain", "twice", "_ZN6lesson5twiceEi", "_ZN6lesson5twiceEd", "hidden"]:
    print(f"{name:20} {'found' if hasattr(names, name) else 'not there'}")

# %% [markdown]
# A library has a table of **symbols**: names with addresses. The compiler writes the namespace and the types of the
# parameters into the symbol of a C++ function, because otherwise the two `twice` would be the same: `_ZN6lesson5twiceEi` is
# `lesson::twice(int)`. With `extern "C"` the symbol is the plain name, and any program can find it. An unnamed namespace has
# no symbols for others at all; use it for everything that only one file needs.
#
# How symbols are spelt, how arguments are passed and how large a class is, is the **ABI** (application binary interface). Two
# libraries can call each other if their ABIs agree. That of C has been the same for decades. That of C++ classes depends on the
# compiler and on the versions of the headers. It is the reason why ONNX Runtime's interface for operators consists of C
# functions (chapter 12), and why PyTorch has a stable ABI (chapter 07).

# %% [markdown]
# ## 6. Templates, and a value that may be missing
#
# A kernel for float and one for double differ in one word. A **template** is a function with a type as a parameter:

# %%
lab.source("A1_template.cpp")

# %%
both = ctypes.CDLL(str(compile_library(lab.cpp("A1_template.cpp"), "cpp")))
for call, dtype in ((both.largest_float, np.float32), (both.largest_int, np.int32)):
    call.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
    values, result = np.array([3, 7, 5], dtype), np.zeros(1, dtype)
    status = call(values.ctypes.data, values.size, result.ctypes.data)
    print(dtype.__name__, "status", status, "largest", result[0])
    status = call(values.ctypes.data, 0, result.ctypes.data)
    print(dtype.__name__, "status", status, "for no values")

# %% [markdown]
# The compiler makes a function from the template for each type that is used, and checks it then: a mistake in a template
# that nothing uses may remain unseen. `largest(values, count)` needs no type in angle brackets, because `values` has one.
#
# What is the largest of no values? There is no number that could say "none": each number may be a real result. The return type
# `std::optional<T>` is a T or nothing (`std::nullopt`). `if (!found)` asks, and `*found` is the value. Across the C
# interface, `std::optional` is not possible. There, the result is written through a pointer and the return value is a
# status: 0 means success.

# %% [markdown]
# ## 7. Who frees the memory
#
# An object in a block is destroyed at the end of the block. Its class says in the **destructor** `~Guest()` what has to be
# done then:

# %%
lab.source("A1_raii.cpp")

# %%
code = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).visit(int(sys.argv[2]))"
raii = compile_library(lab.cpp("A1_raii.cpp"), "cpp")
for early in "01":
    command = [sys.executable, "-c", code, str(raii), early]
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

# %% [markdown]
# `Guest(const char* name)` is the **constructor**, which has the name of the class; `: name_(name)` sets the member `name_` before
# its body runs. `explicit` forbids silent conversions of a text to a Guest. `auto` takes the type from the value on the right.
#
# Each guest that arrives leaves, in the reverse order, also where the function returns early, and also where an
# exception is thrown. Nothing had to be called. A class that owns a resource and releases it in its destructor is
# called **RAII** (resource acquisition is initialisation). The standard library has the ones that you need: `std::vector<float>`
# owns an array and knows its size, `std::string` owns a text, `std::unique_ptr<T>` owns one object, and
# `std::make_unique<T>(…)` creates it. `new` and `delete` in your own code are rare; with `delete` forgotten, the
# memory is lost until the process ends.
#
# One place remains where you write them: an object that belongs to a caller in C. The caller gets an address that
# means nothing to it (`void*`), and has to give it back to a function of yours that deletes it. ONNX Runtime does exactly that
# with your kernels: it calls one function that creates a kernel and one that destroys it.

# %%
lab.source("A1_samples.cpp")

# %%
samples = ctypes.CDLL(str(compile_library(lab.cpp("A1_samples.cpp"), "cpp")))
samples.samples_new.argtypes = [ctypes.c_float]
samples.samples_new.restype = ctypes.c_void_p
samples.samples_add.argtypes = [ctypes.c_void_p, ctypes.c_float]
samples.samples_median.argtypes = [ctypes.c_void_p]
samples.samples_median.restype = ctypes.c_float
samples.samples_delete.argtypes = [ctypes.c_void_p]
samples.samples_add.restype = samples.samples_delete.restype = None

mine = samples.samples_new(3)
for value in (9, 1):
    samples.samples_add(mine, value)
print("median", samples.samples_median(mine))
samples.samples_delete(mine)

# %% [markdown]
# - `new Samples{first}` creates an object that no block owns and returns its address; `delete` destroys it.
# - `static_cast<Samples*>(samples)` is the same address with its type; without a type, the compiler does not know any method.
#   `static_cast<float>(total)` also converts numbers. A method is called with `object.add(1)`, or with `pointer->add(1)`.
# - Only the class itself can use what is `private`. A `struct` is a class in which everything is public from the start.
# - `values.push_back(value)` appends, `values.size()` is the length, `values[i]` is not checked. `std::vector<float> zeros(5)`
#   has five zeros. `values.begin()` and `values.end()` are the first place and the place after the last.
#
# This file is not finished: `new` and `push_back` throw if there is no memory. That is the next section.

# %% [markdown]
# ## 8. Exceptions end at a C interface
#
# `throw` is Python's `raise`, and `try` and `catch` are `try` and `except`. But a caller that was not written in C++ cannot
# catch. What happens to a Python process that calls this function with -1?

# %%
lab.source("A1_throws.cpp", "checked_root")

# %%
code = """
import ctypes, sys
root = ctypes.CDLL(sys.argv[1]).checked_root
root.argtypes = [ctypes.c_double, ctypes.c_void_p]
found = ctypes.c_double(0)
status = root(float(sys.argv[2]), ctypes.addressof(found))
print("status", status, f"root {found.value:.3f}")
"""


def process(name, value):
    library = compile_library(lab.cpp(name), "cpp")
    command = [sys.executable, "-c", code, str(library), value]
    done = subprocess.run(command, capture_output=True, text=True)
    print(name, done.stdout.strip() or f"the process ended with signal {-done.returncode}")
    return done


process("A1_throws.cpp", "2")
dead = process("A1_throws.cpp", "-1")
assert dead.returncode == -6 and "no root of a negative number" in dead.stderr

# %% [markdown]
# Signal 6 is SIGABRT: no C++ caller could catch the exception, so the C++ runtime aborted the process. A kernel that throws
# through a C interface takes the whole program with it. So each such function catches everything, and returns a status:

# %%
lab.diff("A1_throws.cpp", "A1_returns_a_status.cpp")

# %%
process("A1_returns_a_status.cpp", "2")
refused = process("A1_returns_a_status.cpp", "-1")
assert refused.stdout.startswith("status 1")

# %% [markdown]
# `noexcept` is a promise: if an exception leaves the function all the same, the process ends right there, and a debugger
# shows this function. `std::bad_alloc` (no memory) and `std::length_error` (a vector that is too long) are exceptions,
# too, and every `std::vector` may throw them. `const std::exception&` catches all of the standard library's.
#
# Here is the finished function, which is what a C interface in this course looks like:

# %%
lab.source("A1_returns_a_status.cpp")

# %% [markdown]
# ## 9. Exercises
#
# The comment at the top of each file is the specification. Start with `clamp` in
# [exercises/csrc/cA1_clamp.cpp](../exercises/csrc/cA1_clamp.cpp#line=16). If the process crashes,
# `oplab check cA1.clamp --sanitize` finds the line.

# %%
lab.check("clamp")

# %% [markdown]
# `mean` in [exercises/csrc/cA1_mean.cpp](../exercises/csrc/cA1_mean.cpp#line=22): a template that
# compiles, passes its author's test and is wrong. Find out for which arrays, and fix it.

# %%
lab.check("mean")

# %% [markdown]
# `window` in [exercises/csrc/cA1_window.cpp](../exercises/csrc/cA1_window.cpp#line=23): a class that a C program
# creates, uses and deletes.

# %%
lab.check("window")

# %% [markdown]
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - Chapter 07 writes an operator for PyTorch, and chapter 12 a kernel for ONNX Runtime. Both use what is on this page.
# - The C++ Core Guidelines of Stroustrup and Sutter say why, rule by rule. Start with R (resource management).
#
# Next: [07: C++ operators for PyTorch](07_cpp_operators.ipynb)
# · [Glossary](../docs/glossary.md)
