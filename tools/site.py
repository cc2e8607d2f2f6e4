"""``make site``: the course as a static website in ``build/site``, from the executed notebooks. It works without a server and offline.

The sources are laid out in ``build/site-source`` as they are in the repository, so that a link between two pages is the same in both:
lessons in ``notebooks/``, pages in ``docs/``. A page for each chapter in ``exercises/`` takes the place of the stubs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import extras

from oplab.course import language, prose, translated
from oplab.course.language import gettext
from oplab.course.manifest import Chapter, Course, Exercise, load
from oplab.course.stubs import line_of

ROOT = Path(__file__).resolve().parent.parent
SOURCE, SITE = ROOT / "build" / "site-source", ROOT / "build" / "site"
# What is imported from outside of the course's folder, in the order of the page. Packages show what their __init__ exports.
API = {
    "oplab": "What lessons and exercises import.",
    "oplab.lessons": "What a lesson uses.",
    "oplab.parity": "Comparisons that can fail, and one model on several backends.",
    "oplab.ops": "The course's operators.",
    "oplab.viewer": "Graphs in notebooks, in files and in the browser.",
    "oplab.debug": "Why a model is wrong.",
    "oplab.nets": "The networks of the course.",
    "oplab.toolchain.build": "Compiling operators.",
    "oplab.errors": "A user's mistake.",
}
DOCS = {
    "For learners": (
        "learning",
        "jupyter",
        "setup",
        "updating",
        "glossary",
        "clinic",
        "viewer",
        "debug",
        "parity",
        "host",
    ),
    "After the course": ("your_operator", "operators"),
    "For teachers": ("teaching", "class", "class_grades", "class_cluster", "images", "grader", "reports"),
    "For authors": ("authoring", "architecture", "matrix", "benchmarks", "coverage"),
}
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_LINE = re.compile(r"(?:\.\./)*exercises/([\w./]+)#line=(\d+)")


def main() -> int:
    course = load(ROOT)
    if missing := [c.stem for c in course.chapters if not (ROOT / "notebooks" / f"{c.stem}.ipynb").is_file()]:
        print(
            f"There is no notebook of {', '.join(missing)}; `make notebooks CH={missing[0][:2]}` makes it.",
            file=sys.stderr,
        )
        return 2
    try:
        if not extras.install("site", size="Sphinx and a theme, 30 MB"):
            print("\nThe lines above say why. Everything else works without it.", file=sys.stderr)
            return 2
        return build()
    except KeyboardInterrupt:
        print("\nInterrupted. Run the same command again to resume.", file=sys.stderr)
        return 130


def build() -> int:
    """Write the site in each language; the exit status."""
    start = time.monotonic()
    print("Building the site: about a minute the first time ...", flush=True)
    for name in ("en", *translated.languages()):
        os.environ[language.VARIABLE] = name
        own = "" if name == "en" else name
        source, site = SOURCE / name, SITE / own
        lay_out(load(ROOT), source)
        # -W: a link that leads nowhere is a warning, and a warning is a failure. All of them are printed first.
        command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "auto", "-b", "html"]
        command += ["-D", f"language={name}", "-d", f"{SITE}-cache/{name}", str(source), str(site)]
        if subprocess.run(command, cwd=ROOT).returncode:
            print("The site was not built: each line above is a fault of a page, with its place.", file=sys.stderr)
            return 1
        built = [path for path in sorted(site.rglob("*.html")) if own or not path.is_relative_to(SITE / "zh_CN")]
        texts = {path.relative_to(site).as_posix(): searched(path) for path in built}
        text = f"window.oplabTexts = {json.dumps(texts)};\n"
        (site / "_static" / "texts.js").write_text(text, encoding="utf-8")
    size = sum(path.stat().st_size for path in SITE.rglob("*") if path.is_file())
    count = sum(1 for path in SITE.rglob("*.html") if "_static" not in path.parts)
    print(f"{count} pages, {size / 1e6:.0f} MB, in {time.monotonic() - start:.0f} s: {SITE / 'index.html'}")
    return 0


def searched(page: Path) -> str:
    """The text of a page as the search shows it: its sections have their anchors, and nothing else has a tag."""
    article = page.read_text(encoding="utf-8").partition('<article class="bd-article">')[2].partition("</article>")[0]
    return re.sub(
        r"<(script|style|svg)\b.*?</\1>|<a class=\"headerlink\".*?</a>|<(?!/?section\b)[^>]*>",
        "",
        article,
        flags=re.DOTALL,
    )


def lay_out(course: Course, source: Path) -> None:
    """Write the sources of the site; pages that are the same as before keep their time, so that Sphinx leaves them alone."""
    wanted = dict(pages(course))
    for path in [path for path in source.rglob("*") if path.is_file()] if source.is_dir() else []:
        if path.relative_to(source).as_posix() not in wanted:
            path.unlink()
    for name, content in wanted.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_bytes() != content:
            path.write_bytes(content)


def pages(course: Course) -> Iterator[tuple[str, bytes]]:
    """Each file of the site's sources: its name and its content."""
    own = ROOT / "docs" / "site"
    yield "conf.py", (own / "conf.py").read_bytes()
    for name in ("site.css", "site.js"):
        yield f"_static/{name}", (own / name).read_bytes()
    words = language.catalogue("pages")
    chapters = "\n".join(f"- [{title(chapter)}](notebooks/{chapter.stem}.ipynb)" for chapter in course.chapters)
    front = prose.translated((own / "index.md").read_text(encoding="utf-8"), words).replace("@CHAPTERS@", chapters)
    captions = {
        "For learners": gettext("For learners"),
        "After the course": gettext("After the course"),
        "For teachers": gettext("For teachers"),
        "For authors": gettext("For authors"),
    }
    toctrees = [toctree(gettext("Lessons"), [f"notebooks/{chapter.stem}" for chapter in course.chapters])]
    toctrees += [toctree(gettext("Exercises"), ["exercises/index"])]
    toctrees += [toctree(captions[group], [f"docs/{name}" for name in names]) for group, names in DOCS.items()]
    toctrees += [toctree(gettext("Reference"), ["api/index"])]
    yield "index.md", "\n".join([front, *toctrees]).encode()
    linked: set[Path] = set()
    for chapter in course.chapters:
        yield f"notebooks/{chapter.stem}.ipynb", lesson(course, chapter, linked).encode()
    for path in sorted((ROOT / "docs").glob("*.md")):
        text = links(course, prose.translated(path.read_text(encoding="utf-8"), words), path, linked)
        yield f"docs/{path.name}", text.encode()
    listed = {f"{name}.md" for names in DOCS.values() for name in names}
    if unlisted := {path.name for path in (ROOT / "docs").glob("*.md")} - listed:
        raise SystemExit(f"docs/{min(unlisted)} is in no list of DOCS in tools/site.py: no reader would find it.")
    with_exercises = [chapter for chapter in course.chapters if chapter.exercises]
    names = [f"{chapter.stem}" for chapter in with_exercises]
    yield (
        "exercises/index.md",
        f"# {gettext('Exercises')}\n\n{toctree('', names, hidden=False)}".encode(),
    )
    for chapter in with_exercises:
        yield f"exercises/{chapter.stem}.md", exercises(course, chapter).encode()
    yield "api/index.md", api().encode()
    for path in sorted(linked):
        yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def title(chapter: Chapter) -> str:
    return f"{chapter.stem.partition('_')[0]} · {chapter.title}"


def toctree(caption: str, names: list[str], hidden: bool = True) -> str:
    options = [f":caption: {caption}"] if caption else []
    options += [":hidden:"] if hidden else [":maxdepth: 1"]
    return "\n".join(["```{toctree}", *options, "", *names, "```", ""])


def lesson(course: Course, chapter: Chapter, linked: set[Path]) -> str:
    """A lesson's notebook, with links to pages of the site, and the command that opens it under its title."""
    path = ROOT / "notebooks" / f"{chapter.stem}.ipynb"
    notebook = json.loads(translated.lesson(course, chapter))
    first = True
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            text = links(course, text, path, linked)
            if first:
                head, _, rest = text.partition("\n")
                number = chapter.stem.partition("_")[0]
                text = f"{head}\n\n{opening(number)}\n{rest}"
                first = False
            cell["source"] = text
        elif cell["metadata"].get("jupyter", {}).get("source_hidden"):
            cell["metadata"]["tags"] = ["hide-input"]
    return json.dumps(notebook)


def opening(number: str) -> str:
    return (
        f"```{{admonition}} {gettext('Run this lesson')}\n:class: start-here\n"
        + gettext(
            "`make lab CH={number}` in a copy of the course opens it in JupyterLab. "
            "The button at the top of the page downloads the notebook.",
            number=number,
        )
        + "\n```"
    )


def links(course: Course, text: str, page: Path, linked: set[Path]) -> str:
    """The text with each link to a stub led to its page of exercises; other files of the repository become downloads."""

    def led(match: re.Match[str]) -> str:
        link = match[1]
        if re.match(r"\w+:|#", link):
            return match[0]
        if stub := _LINE.fullmatch(link):
            exercise = exercise_at(course, stub[1], int(stub[2]))
            return f"](../exercises/{exercise.chapter}.md#{anchor(exercise)})"
        target = (page.parent / link.partition("#")[0]).resolve()
        if (
            target.is_relative_to(ROOT / "docs")
            or target.is_relative_to(ROOT / "notebooks")
            and target.suffix == ".ipynb"
        ):
            place = link.partition("#")[2]
            return f"]({link.removesuffix(place)}{anchors(target).get(place, place)})"
        if target == ROOT / "README.md":
            return "](../index.md)"
        if target.is_file():
            linked.add(target)
        return match[0]

    return _LINK.sub(led, text)


def anchors(page: Path) -> dict[str, str]:
    """The anchors of a page's headings in the site's language, by those in English."""
    english = page.read_text(encoding="utf-8") if page.suffix == ".md" else ""
    texts = (english, prose.translated(english, language.catalogue("pages")))
    slugs = ([slug(head) for head in re.findall(r"^#+ (.+)", text, re.MULTILINE)] for text in texts)
    return dict(zip(*slugs, strict=True))


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def exercise_at(course: Course, file: str, line: int) -> Exercise:
    """The exercise whose stub a link with a line, counted from 0, opens."""
    text = (ROOT / "exercises" / file).read_text(encoding="utf-8")
    mine = [exercise for exercise in course.exercises if exercise.file == file]
    return min(mine, key=lambda exercise: abs((line_of(text, exercise.id, exercise.name) or 1) - line - 1))


def anchor(exercise: Exercise) -> str:
    return exercise.id.replace(".", "-").replace("_", "-").lower()


def exercises(course: Course, chapter: Chapter) -> str:
    """The page of a chapter's exercises: what each asks for, its hints, folded, and the stubs."""
    link = f"[{chapter.title}](../notebooks/{chapter.stem}.ipynb)"
    parts = [
        "# " + gettext("{title}: exercises", title=title(chapter)),
        gettext("The lesson: {link}.", link=link),
    ]
    shown: set[str] = set()
    for exercise in chapter.exercises:
        facts = gettext(
            "{points} points, about {minutes} minutes, difficulty {difficulty} of 5",
            points=exercise.points,
            minutes=exercise.minutes,
            difficulty=exercise.difficulty,
        ) + (gettext(", deeper") if exercise.deeper else "")
        hints = "\n".join(
            f'<details class="hints"><summary>{gettext("Hint {number}", number=number)}</summary>\n\n{hint}\n\n</details>\n'
            for number, hint in enumerate(exercise.hints, 1)
        )
        code = "python" if exercise.kind == "python" else "cpp"
        stub = ROOT / "exercises" / exercise.file
        parts += [
            f"({anchor(exercise)})=\n## `{exercise.id}`",
            f"{exercise.goal[0].upper()}{exercise.goal[1:]}. *({facts})*",
            gettext("`make check EX={id}` grades `exercises/{file}`.", id=exercise.id, file=exercise.file),
            hints,
        ]
        if exercise.file not in shown:
            shown.add(exercise.file)
            text = translated.stub(course, exercise.file, stub.read_text(encoding="utf-8"))
            parts.append(f"````{code}\n{text.rstrip()}\n````")
        else:
            parts.append(gettext("Its stub is in the file above, `{file}`.", file=exercise.file))
    return "\n\n".join(parts) + "\n"


def api() -> str:
    """The page of the library's public names."""
    parts = [
        "# Python API",
        "What you import from `oplab`. Shapes, dtypes, units and errors are in the text of each name.",
    ]
    for module, words in API.items():
        parts.append(f"## `{module}`\n\n{words}\n\n```{{eval-rst}}\n.. automodule:: {module}\n   :no-index:\n```")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
