"""Lessons, stubs and the panel in Chinese, and back."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from oplab.course import answers, copies, language, prose, speaking, stubs, translated
from oplab.course.manifest import load

ROOT = Path(__file__).resolve().parents[2]
CHINESE = re.compile("[\u4e00-\u9fff]")


@pytest.fixture(scope="module")
def course():
    return load(ROOT)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A learner's folder with two chapters' stubs and all lessons."""
    for name in ("course.toml", "notebooks", "solutions"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "exercises").mkdir()
    for name in ("c04_aten_symbolic.py", "c05_writing_symbolic.py"):
        shutil.copy(ROOT / "exercises" / name, tmp_path / "exercises")
    monkeypatch.setenv("OPLAB_ROOT", str(tmp_path))
    monkeypatch.delenv(language.VARIABLE, raising=False)
    return load(tmp_path)


def test_lessons_change_their_prose_alone(course):
    for chapter in course.chapters:
        english = (ROOT / chapter.notebook).read_bytes()
        chinese = translated.lesson(course, chapter, "zh_CN")
        before, after = (json.loads(text)["cells"] for text in (english, chinese))
        code = [[cell["source"] for cell in cells if cell["cell_type"] == "code"] for cells in (before, after)]
        assert code[0] == code[1] and CHINESE.search(chinese.decode()), chapter.stem
        assert json.loads(translated.english(course, chapter, chinese)) == json.loads(english), chapter.stem


def test_stubs_change_their_prose_alone(course):
    for file in dict.fromkeys(exercise.file for exercise in course.exercises):
        exercises = course.in_file(file)
        english = (ROOT / "exercises" / file).read_text()
        chinese = translated.stub(course, file, english, "zh_CN")
        assert CHINESE.search(chinese) and chinese.count("\n") == english.count("\n"), file
        assert translated.stub(course, file, chinese, "en") == english, file
        assert max(map(prose.columns, chinese.split("\n"))) <= 120, file
        for exercise in exercises:
            name = exercise.name if file.endswith(".py") else None
            assert stubs.is_untouched(chinese, english, name), exercise.id
        assert answers.digests(chinese, exercises) == answers.digests(english, exercises), file


def test_a_change_of_the_language_loses_nothing(folder):
    copies.sync(folder)
    stub, lesson = folder.root / "exercises/c04_aten_symbolic.py", folder.root / "work/04_aten_symbolic.ipynb"
    stub.write_text(stub.read_text().replace('    raise todo("c04.asinh")', "    mine = 1"))
    notebook = json.loads(lesson.read_text())
    notebook["cells"].insert(1, {"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["My note."]})
    lesson.write_text(json.dumps(notebook, indent=1) + "\n")
    before = {path: path.read_text() for path in (*folder.root.glob("exercises/*"), *folder.root.glob("work/*.ipynb"))}
    states = copies.states(folder)

    speaking.switch(folder, "zh_CN")
    chinese = load(folder.root)
    assert all(CHINESE.search(path.read_text()) for path in before)
    assert "    mine = 1" in stub.read_text() and "My note." in lesson.read_text()
    assert copies.states(chinese) == states and copies.sync(chinese) == []
    assert CHINESE.search(chinese.exercise("asinh").goal) and CHINESE.search(chinese.exercise("asinh").hints[0])
    with speaking.in_english(folder.root):
        assert stub.read_text() == before[stub]
    answers.reset(chinese, chinese.exercise("asinh"))
    assert "TODO c04.asinh" in stub.read_text() and CHINESE.search(stub.read_text())
    stub.write_text(stub.read_text().replace('    raise todo("c04.asinh")', "    mine = 1"))

    speaking.switch(chinese, "en")
    assert {path: path.read_text() for path in before if path != lesson} == {
        path: text for path, text in before.items() if path != lesson
    }
    assert json.loads(lesson.read_text()) == notebook


def test_a_paragraph_that_has_changed_is_english():
    known = {"Old words.": "旧的。", "See [it](a.py#line).": "见[它](a.py#line)。"}
    text = "Old\nwords.\n\n- New words.\n- See [it](a.py#line=7).\n\n```python\nOld words.\n```"
    expected = "旧的。\n\n- New words.\n- 见[它](a.py#line=7)。\n\n```python\nOld words.\n```"
    assert prose.translated(text, known) == expected


def test_the_panel_is_translated():
    catalogue = json.loads((language.FOLDER / "zh_CN/LC_MESSAGES/oplab_lab.json").read_text())
    code = "".join(path.read_text() for path in sorted((ROOT / "labextension/src").glob("*.ts*")))
    texts = re.findall(r"trans\.(?:__|_n)\(\s*'((?:[^'\\]|\\.)*)'", code)
    assert len(texts) > 80 and set(texts) == set(catalogue) - {""}
    for text, (other,) in list(catalogue.items())[1:]:
        assert sorted(re.findall(r"%\d", text)) == sorted(re.findall(r"%\d", other)), text


def test_the_first_make_lab_reads_the_course_before_anything_is_installed(folder, monkeypatch):
    monkeypatch.setenv(language.VARIABLE, "zh_CN")
    monkeypatch.setitem(sys.modules, "babel.messages.pofile", None)
    language._read.cache_clear()
    try:
        assert load(folder.root).chapters[0].title == "First round trip"
    finally:
        language._read.cache_clear()


def test_a_language_that_does_not_exist(folder):
    with pytest.raises(language.OplabError, match="no language fr.*\n.*zh_CN"):
        speaking.switch(folder, "fr")
