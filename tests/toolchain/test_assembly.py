"""The loop that a lesson shows is the one that multiplies, and a file that does not compile says so."""

from __future__ import annotations

import pytest

from oplab.errors import OplabError
from oplab.toolchain.assembly import innermost_loop, is_product, uses_stack

SCALE = """
void scale(float* x, int n) {
  for (int i = 0; i < n; ++i) x[i] *= 3;
}
"""


def test_the_loop_multiplies_and_leaves_the_stack_alone(tmp_path):
    source = tmp_path / "scale.h"
    source.write_text(SCALE)
    loop = innermost_loop(source)
    assert any(map(is_product, loop)) and not any(map(uses_stack, loop))


def test_a_definition_reaches_the_file(tmp_path):
    source = tmp_path / "scale.h"
    source.write_text("#ifdef WITH_LOOP" + SCALE + "#endif\n")
    assert innermost_loop(source, ["-DWITH_LOOP"])
    with pytest.raises(ValueError):
        innermost_loop(source)


def test_a_file_that_does_not_compile(tmp_path):
    source = tmp_path / "broken.h"
    source.write_text("float x = y;\n")
    with pytest.raises(OplabError, match=r"broken\.h does not compile"):
        innermost_loop(source)
