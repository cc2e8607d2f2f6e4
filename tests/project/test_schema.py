"""oplab.project.schema: the options of `oplab new-operator`, and what is refused."""

from __future__ import annotations

import pytest
import torch

from oplab.errors import OplabError
from oplab.project import schema, shapes


class TestFromOptions:
    def test_types_come_from_the_defaults(self):
        made = schema.from_options("x, mask?", "y", "alpha=1.5, n=2, pads=[1, 2], gains=[0.5, 1], mode=near")
        assert made.text == (
            "(Tensor x, Tensor? mask=None, float alpha=1.5, int n=2, int[] pads=[1, 2], float[] gains=[0.5, 1.0], "
            'str mode="near") -> Tensor'
        )
        assert [one.name for one in made.optional] == ["mask"] and made.main.name == "x"

    def test_only_an_input_at_the_end_has_a_default(self):
        assert schema.from_options("mask?, x, bias?", "lo, hi", "").text == (
            "(Tensor? mask, Tensor x, Tensor? bias=None) -> (Tensor lo, Tensor hi)"
        )

    def test_pytorch_parses_what_is_made(self):
        made = schema.from_options("a,b?", "y,z", "alpha=-1e-05,n=-3,pads=[1],gains=[0.5],mode=a b")
        parsed = torch._C.parse_schema(f"my::name{made.text}")
        assert [argument.name for argument in parsed.arguments] == ["a", "b", "alpha", "n", "pads", "gains", "mode"]
        assert parsed.arguments[2].default_value == -1e-05 and parsed.arguments[6].default_value == "a b"
        assert schema.from_text(made.text) == made, "one path after that"

    @pytest.mark.parametrize(
        ("given", "filled"),
        [
            ((None, None, None), ("x,y", "z", "alpha=1.0")),
            (("x,z", None, None), ("x,z", "y", "alpha=1.0")),
            ((None, "y", "alpha=2"), ("x,w", "y", "alpha=2")),
            (("alpha?,x", None, None), ("alpha?,x", "z", "beta=1.0")),
            (("", "", ""), ("", "", "")),
        ],
    )
    def test_defaults_take_names_that_are_free(self, given, filled):
        assert schema.with_defaults(*given) == filled

    @pytest.mark.parametrize(
        ("inputs", "outputs", "attributes", "words"),
        [
            ("", "y", "", "no inputs"),
            ("x?", "y", "", "All inputs are optional"),
            ("x,x", "y", "", "'x' is used twice"),
            ("lambda", "y", "", "'lambda' is a keyword"),
            ("x__y", "y", "", "a _ too many"),
            ("count", "y", "", "uses the name 'count' itself"),
            ("x", "y", "alpha", "'alpha' has no default"),
            ("x", "y", "alpha=true", "has no type"),
            ("x", "y", "alpha=1e39", "does not fit into float32"),
            ("x", "y", "mode=a\\nb", "unusual characters"),
        ],
    )
    def test_bad_input(self, inputs, outputs, attributes, words):
        with pytest.raises(OplabError) as caught:
            schema.from_options(inputs, outputs, attributes)
        assert words in caught.value.message and "\n" not in caught.value.message


class TestFromText:
    def test_attributes_and_inputs_in_any_order(self):
        made = schema.from_text("(int n, Tensor? mask, Tensor x, float[2] s=[1.0, 2.0]) -> (Tensor, Tensor)")
        assert [one.name for one in made.arguments] == ["n", "mask", "x", "s"]
        assert [one.weight for one in made.inputs] == [1, 2] and made.outputs == ("y0", "y1")
        assert schema.from_text("(Tensor x, Tensor y) -> Tensor").outputs == ("z",), "y is an input"
        assert schema.from_text("(Tensor x) -> (Tensor y, Tensor)").outputs == ("y", "z1")
        assert made.attributes[0].default is None and made.attributes[1].default == [1.0, 2.0]

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (" ", "The schema is empty"),
            ("(" * 100_000, "The schema has 100,000 characters"),  # a segmentation fault of the parser
            ("(Tensor x", "cannot be parsed: expected ), but it ends."),
            ("(Tensr x) -> Tensor", "cannot be parsed: unknown type specifier at 'Tensr'."),
            ("(Tensor x, int n=1, Tensor y) -> Tensor", "Non-default positional argument follows default argument."),
            ("(float alpha) -> Tensor", "no inputs"),
            ("(Tensor(a!) x) -> Tensor(a!)", "alias"),
            ("(Tensor x, bool flag=False) -> Tensor", "flag has the type bool"),
            ("(Tensor[] xs) -> Tensor", "xs has the type Tensor[]"),
            ("(Tensor x, int n=1.5) -> Tensor", "The default 1.5 of n is not an int"),
            ("(Tensor x, int[] pads=[]) -> Tensor", "empty list"),
        ],
    )
    def test_bad_input(self, text, words):
        with pytest.raises(OplabError) as caught:
            schema.from_text(text)
        assert words in caught.value.message and "\n" not in caught.value.message


class TestShapes:
    """``x:float[N,C] index:int64[K] -> y:float[K,2*C]``: each tensor has its own dtype and shape."""

    def test_dtypes_sizes_and_products(self):
        made = schema.from_text(
            "mask?:int32[N] x:float[N, C] gain=0.5 at:int64[K,2], b?:float[2*C] -> y:float[K,2*C] z:float[]"
        )
        assert (
            made.text == "(Tensor? mask, Tensor x, Tensor at, Tensor? b=None, float gain=0.5) -> (Tensor y, Tensor z)"
        )
        assert [one.integer for one in made.inputs] == ["int32", "", "int64", ""] and made.main.name == "x"
        assert shapes.sizes(made) == {"N": ("x", 0), "C": ("x", 1), "K": ("at", 0)}
        assert made.output_dims == (("K", "2 * C"), ())

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("x:float[N", "'x:float[N' is not a tensor with its dtype and sizes"),
            ("x:half[N] -> y:float[N]", "x has the dtype half"),
            ("x:float[N] -> y:int64[N]", "An output is optional or has integers"),
            ("x:int64[N] w?:float[N] -> y:float[N]", "no input of floats"),
            ("x:float[2*N] -> y:float[N]", "No input has the size N alone"),
        ],
    )
    def test_bad_input(self, text, words):
        with pytest.raises(OplabError) as caught:
            schema.from_text(text)
        assert words in caught.value.message and "\n" not in caught.value.message


class TestDtypes:
    def test_aliases_and_order(self):
        assert schema.dtypes("float16, float64,float32") == ("float", "double", "half")

    @pytest.mark.parametrize(
        ("text", "words"), [("int", "no dtype int"), ("float,float32", "twice"), ("", "lacks float")]
    )
    def test_bad_input(self, text, words):
        with pytest.raises(OplabError, match=words):
            schema.dtypes(text)
