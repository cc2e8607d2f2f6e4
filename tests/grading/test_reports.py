"""Reports: each is read back by a reader of its format, and all of them say what results.json says."""

from __future__ import annotations

import json
import os
import re
from html.parser import HTMLParser

import jsonschema
import pytest
from junitparser import Error, Failure, JUnitXml, Skipped

from oplab import reports
from oplab.course.manifest import load
from oplab.grading.results import Check, Graph, Outcome, Results
from oplab.grading.text import outcome_lines, outcome_text
from tests.support import ROOT

SCHEMA = json.loads((ROOT / "oplab" / "grading" / "results.schema.json").read_text(encoding="utf-8"))
NASTY = '<script>alert(1)</script> & "q" ]]> \x1b[31m \x00 ``` | \' </details> {{ 7 * 7 }} ✗'
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><script>alert(2)</script></svg>'


def outcome(id: str, status: str, points: int, of: int, message: str = "", checks=(), graphs=()) -> Outcome:
    stem = {"c00": "00_first", "c04": "04_aten_symbolic"}[id.split(".")[0]]
    return Outcome(id, stem, status, points, of, 0.25, message, tuple(checks), graphs=tuple(graphs))


RESULTS = Results(
    (
        outcome("c00.one", "passed", 2, 2, "", [Check("matches", True)]),
        outcome("c00.two", "todo", 0, 1, "Not written yet. Goal: write it"),
        outcome(
            "c04.three",
            "failed",
            0,
            3,
            NASTY,
            [Check("first", True), Check("second <b>", False, NASTY), Check("third", False, f"third: {NASTY}")],
            [Graph("opset 9", SVG)],
        ),
        outcome("c04.four", "build_failed", 0, 2, "c04_four.cpp:3:1: error: no\n    3 | int\n      | ^"),
        outcome("c04.five", "crashed", 0, 2, "The process crashed with SIGSEGV."),
        outcome("c04.six", "grader_error", 0, 2, "ValueError: ours"),
    ),
    seed=7,
).as_dict()
TITLES = {"04_aten_symbolic": "ATen | functions"}


@pytest.fixture
def course(warm_course):
    return warm_course


def test_results_of_an_appendix_fit_the_schema_and_every_report(tmp_path):
    """Its chapter has a letter where the others have a digit; each exercise of the course has such an id."""
    appendix = Results(
        (Outcome("cA1.clamp", "A1_cpp_in_an_hour", "failed", 0, 2, 0.1, "no", (Check("runs", False, "no"),)),), 7
    )
    jsonschema.validate(appendix.as_dict(), SCHEMA)
    jsonschema.validate(RESULTS, SCHEMA)
    for format in reports.FORMATS:
        assert "cA1.clamp" in reports.render(format, appendix.as_dict())
    assert json.loads(reports.render("gradescope", appendix.as_dict()))["tests"][0]["number"] == "A1.1"
    ids = [(exercise.id, exercise.chapter) for exercise in load(ROOT).exercises]
    every = Results(tuple(Outcome(id, stem, "todo", 0, 1, 0.0) for id, stem in ids), 7)
    jsonschema.validate(every.as_dict(), SCHEMA)


def test_junit_is_read_by_junitparser(tmp_path):
    (tmp_path / "junit.xml").write_text(reports.render("junit", RESULTS, TITLES), encoding="utf-8")
    xml = JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    assert (xml.tests, xml.failures, xml.errors, xml.skipped) == (6, 1, 3, 1)
    first, second = list(xml)
    assert (first.name, second.name) == ("00 first", "04 ATen | functions")
    assert (second.tests, second.failures, second.errors, second.skipped) == (4, 1, 3, 0)
    cases = {case.name: case for suite in xml for case in suite}
    assert [type(cases[id].result[0]) for id in ("c00.two", "c04.three", "c04.four", "c04.six")] == [
        Skipped,
        Failure,
        Error,
        Error,
    ]
    assert cases["c00.one"].result == []
    assert cases["c04.three"].classname == "c04_aten_symbolic"
    assert "<script>alert(1)</script>" in cases["c04.three"].result[0].text
    assert {p.get("name"): p.get("value") for p in cases["c00.one"]._elem.iter("property")} == {
        "points": "2",
        "max_points": "2",
    }


class Page(HTMLParser):
    """The text of a page, its tags with attributes, and what stands in each article."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.articles: dict[str, str] = {}
        self._open, self._id = [], None
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br"):
            self._open.append(tag)
        if tag == "article":
            self._id = dict(attrs)["id"]
            self.articles[self._id] = ""

    def handle_endtag(self, tag):
        assert self._open.pop() == tag
        if tag == "article":
            self._id = None

    def handle_data(self, data):
        if self._id:
            self.articles[self._id] += data


def test_html_is_whole_escaped_and_alone():
    text = reports.render("html", RESULTS, TITLES)
    page = Page(text)
    names = [tag for tag, _ in page.tags]
    assert "script" not in names and "b" not in names and "link" not in names
    assert "<script>alert(1)</script>" in page.articles["c04.three"]
    assert "{{ 7 * 7 }}" in page.articles["c04.three"]
    assert "The same: third." in page.articles["c04.three"]
    assert list(page.articles) == [entry["id"] for entry in RESULTS["exercises"]]
    images = [attrs for tag, attrs in page.tags if tag == "img"]
    assert len(images) == 1 and images[0]["src"].startswith("data:image/svg+xml;base64,")
    assert all(not str(attrs.get(key, "")).startswith(("http", "//")) for _, attrs in page.tags for key in attrs)
    policy = next(attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv"))
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert re.search(r"04 ATen \| functions</a></td>\s*<td class=\"number\">0/9</td>", text)
    assert "The grader itself failed on c04.six." in text


def test_gradescope_has_what_its_format_demands():
    """The keys and values that Gradescope's specification of results.json names."""
    report = json.loads(reports.render("gradescope", RESULTS, TITLES))
    assert report["score"] == RESULTS["points"] == sum(test["score"] for test in report["tests"])
    assert set(report) <= {
        *("score", "execution_time", "output", "output_format", "test_output_format", "test_name_format"),
        *("visibility", "stdout_visibility", "extra_data", "tests", "leaderboard"),
    }
    assert report["visibility"] == "visible" and isinstance(report["execution_time"], int)
    for test, entry in zip(report["tests"], RESULTS["exercises"], strict=True):
        assert set(test) <= {
            *("score", "max_score", "status", "name", "name_format", "number", "output", "output_format"),
            *("tags", "visibility", "extra_data"),
        }
        assert (test["name"], test["score"], test["max_score"]) == (entry["id"], entry["points"], entry["max_points"])
        assert test["status"] == ("passed" if entry["status"] == "passed" else "failed")
        assert test["output_format"] == "text"
    assert "c04.six" in report["output"]


def test_markdown_table_and_details():
    from markdown_it import MarkdownIt

    text = reports.render("markdown", RESULTS, TITLES)
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    rows = sum(token.type == "tr_open" for token in tokens)
    assert rows == 1 + 2 + len(RESULTS["exercises"])  # head, chapters, exercises
    cells = [token.content for token in tokens if token.type == "inline" and "ATen" in token.content]
    assert cells == ["**04 ATen | functions**"] or cells == ["**04 ATen \\| functions**"]
    fences = [token for token in tokens if token.type == "fence"]
    assert len(fences) == 4
    assert "<script>alert(1)</script>" in fences[0].content and "```" in fences[0].content
    raw = "".join(token.content for token in tokens if token.type == "html_block")
    assert "<script>" not in raw and raw.count("<details>") == raw.count("</details>") == 4


def test_all_files_in_one_run(course, oplab):
    """One run writes five files; made again from results.json alone, four of them are the same."""
    names = {"json": "r.json", "junit": "r.xml", "html": "r.html", "gradescope": "g.json", "markdown": "r.md"}
    options = [part for format, name in names.items() for part in (f"--{format}", name)]
    done = oplab("check", "c01.passes", "c01.fails", "c01.broken", *options)
    assert done.returncode == 1, done.stderr
    assert "1 of 3 points" in done.stdout
    results = json.loads((course / "r.json").read_text(encoding="utf-8"))
    jsonschema.validate(results, SCHEMA)
    first = {name: (course / name).read_text(encoding="utf-8") for name in names.values()}
    assert oplab("report", "r.json", *options[2:]).returncode == 0
    assert {name: (course / name).read_text(encoding="utf-8") for name in names.values()} == first


def test_a_model_that_cannot_be_drawn_costs_only_its_picture(tmp_path):
    """Bytes that are no model, evidence that is no JSON, and a name that is no text; the sound one is drawn all the same."""
    from onnx import TensorProto, helper

    from oplab.reports.graphs import draw

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    sound = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10).SerializeToString()
    items = {"model": {"kind": "file", "file": "f0.bin"}}
    for id, evidence, data in (
        ("c01.a", json.dumps({"items": items}), b"\xff" * 1000),
        ("c01.b", "{", sound),
        ("c01.c", json.dumps({"items": {"model": {"kind": "file", "file": "../../../etc/passwd"}}}), sound),
        ("c01.d", json.dumps({"items": [1]}), sound),
        ("c01.e", json.dumps({"items": items}), sound),
    ):
        (tmp_path / id).mkdir()
        (tmp_path / id / "evidence.json").write_text(evidence)
        (tmp_path / id / "f0.bin").write_bytes(data)
    drawn = draw({id: ["model: wrong"] for id in ("c01.a", "c01.b", "c01.c", "c01.d", "c01.e")}, tmp_path)
    assert list(drawn) == ["c01.e"]
    assert "Neg" in drawn["c01.e"][0].svg


def test_links_in_the_evidence_are_not_followed(tmp_path):
    from oplab.grading.client import copy_evidence

    secret = tmp_path / "secret"
    secret.write_text("secret")
    evidence = tmp_path / "evidence"
    evidence.mkdir()
    (evidence / "evidence.json").write_text("{}")
    (evidence / "f0.bin").symlink_to(secret)
    (evidence / "f1.bin").write_text("mine")
    for _ in range(2):  # an exercise may be graded twice
        copy_evidence(evidence, tmp_path / "kept")
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["evidence.json", "f1.bin"]
    (evidence / "evidence.json").unlink()
    (evidence / "evidence.json").symlink_to(secret)
    copy_evidence(evidence, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_to_stdout_is_nothing_but_the_report(oplab):
    done = oplab("check", "c01.passes", "--markdown", "-")
    assert done.stdout.startswith("**1 of 1 points")
    assert "c01.passes  passed" in done.stderr


def test_a_file_that_cannot_be_written_is_told_before_grading(call):
    for args, words in (
        (["--html", "no/where.html"], "no/where.html cannot be written: the folder no does not exist."),
        (["--junit", "exercises"], "exercises cannot be written: it is a folder."),
        (["--json", "-", "--markdown", "-"], "--json and --markdown both go to stdout."),
        (["--json", "a", "--html", "./a"], "--json and --html both go to a."),
    ):
        code, out, err = call("check", "c01.passes", *args)
        assert code == 2 and words in err and "c01.passes" not in out


def test_a_file_that_cannot_be_written_is_told_after_the_result(course, oplab):
    """Linux takes no new file in /proc, not even from root. The result is printed and remembered, and the other report is written."""
    done = oplab("check", "c01.passes", "--html", "/proc/r.html", "--markdown", "r.md")
    assert done.returncode == 2
    assert "oplab: /proc/r.html cannot be written: " in done.stderr
    assert "1 of 1 points" in done.stdout
    assert (course / "r.md").read_text(encoding="utf-8").startswith("**1 of 1 points")
    assert json.loads((course / "build/progress.json").read_text())["exercises"]["c01.passes"]["status"] == "passed"


def test_a_pipe_stays_a_pipe_and_a_link_a_link(tmp_path):
    """`--junit /dev/stderr` must not put a file in the place of the device."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    targets = {"json": tmp_path / "pipe", "markdown": tmp_path / "link"}
    assert reports.write(RESULTS, targets) == []
    assert json.loads(os.read(reader, 1 << 20)) == RESULTS
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text(encoding="utf-8").startswith("**2 of")


def test_report_of_what_is_no_results_file(course, call):
    for text, words in (
        (None, "r.json cannot be read: No such file"),
        ("{", "r.json is not JSON"),
        ('{"version": 2}', "r.json is not a results file of this version"),
        (json.dumps({**RESULTS, "exercises": [{"id": "<b>"}]}), "not a results file of this version: exercises/0"),
        ("[" * 100_000, "r.json is not JSON"),
    ):
        if text is not None:
            (course / "r.json").write_text(text)
        code, _, err = call("report", "r.json", "--html", "r.html")
        assert code == 2 and words in err
        assert not (course / "r.html").exists()


FAILED = outcome(
    "c04.three",
    "failed",
    0,
    3,
    "long words " * 30 + "(2 processes that it left running were ended.)",
    [
        Check("shape", True),
        Check("values: all", False, "long words " * 29 + "long words"),
        Check("again", False, "again: " + "long words " * 29 + "long words"),
    ],
)


def test_text_has_the_first_failure_first_and_says_it_once():
    lines = outcome_lines(FAILED)
    assert lines[0] == "✗ c04.three  failed  0/3 points"
    assert lines[1].startswith("    ✗ values: all: long words long words")
    assert lines[2] == "      The same: again."
    assert lines[3:] == ["    ✓ shape", "    (2 processes that it left running were ended.)"]


def test_text_keeps_the_caret_under_its_character_and_obeys_no_escape():
    source = "c.cpp:3:70: error: x\n    3 | " + "int y; " * 10 + "\n      | " + " " * 69 + "^"
    broken = outcome("c04.four", "build_failed", 0, 2, source + "\n\x1b[2J")
    plain = outcome_text(broken, 50).plain.splitlines()
    assert plain[3] == "          | " + " " * 69 + "^"
    assert "\x1b" not in "\n".join(plain) and "\x1b" not in "\n".join(outcome_lines(broken))
