"""C++ in a lesson: a file, one definition of it, and the difference of two files."""

from __future__ import annotations

import pytest

from oplab.errors import OplabError
from oplab.figures import listing

FILE = """\
// "{" in a comment
#include <cmath>

namespace {

const char* brace = "}{";

struct Kernel {
  Kernel(int n) : n_{n} {}

  int Compute(int x) const {
    if (x < 0) { return 0; }
    return n_ * x;
  }

  int ComputeAll() const { return n_; }

  int n_{1};
};

template <typename T>
T twice(T x) {
  return 2 * x;
}

}  // namespace
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "12_a.cpp").write_text(FILE)
    (tmp_path / "12_b.cpp").write_text(FILE.replace("return n_ * x;", "return n_ * x < 9;"))
    return tmp_path


def shown(folder, part):
    *_, title = listing.source(folder / "12_a.cpp", part).text.splitlines()[0].split(", ")
    return title


def test_a_part_is_the_definition_up_to_its_brace(folder):
    parts = {"Compute(int x)": (11, 14), "Compute": (11, 14), "struct Kernel": (8, 19), "twice": (21, 24)}
    for part, (first, last) in parts.items():
        assert shown(folder, part) == f"lines {first} to {last}"


def test_a_difference_has_signs_besides_colours_and_three_lines_around(folder):
    made = listing.diff(folder / "12_a.cpp", folder / "12_b.cpp")
    assert made.text.splitlines() == [
        "12_a.cpp → 12_b.cpp: 1 removed (−), 1 added (+)",
        "10",
        "11      int Compute(int x) const {",
        "12        if (x < 0) { return 0; }",
        "13 −      return n_ * x;",
        "13 +      return n_ * x < 9;",
        "14      }",
        "15",
        "16      int ComputeAll() const { return n_; }",
    ]
    assert "<span><i> 12    </i>" in made.html and '<span class="del"><i> 13 −  </i>' in made.html
    assert made.html.count('class="add"') == made.html.count('class="del"') == 1
    with pytest.raises(OplabError, match="are the same"):
        listing.diff(folder / "12_a.cpp", folder / "12_a.cpp")
