"""What the servers give away, and to whom: the store of shown models, Netron's pages, the local server."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from oplab.errors import OplabError
from oplab.viewer import resources, show, view
from oplab.viewer.store import Store, identify
from tests.support import viewer_models as m

ID = "0123456789abcdef0123"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path)
    store.put(ID, "tiny", ".onnx", b"payload", lambda out: out.write(b"weights"))
    return store


def read(store: Store, identifier: str, suffix: str) -> bytes | None:
    opened = store.open(identifier, suffix)
    if opened is None:
        return None
    with os.fdopen(opened[0], "rb") as file:
        return file.read()


def test_what_was_put_can_be_read(store: Store) -> None:
    assert store.entry(ID).name == "tiny"
    assert read(store, ID, ".onnx") == b"payload" and read(store, ID, ".weights") == b"weights"
    assert stat.S_IMODE(os.stat(store.folder).st_mode) == 0o700
    assert {stat.S_IMODE(f.stat().st_mode) for f in store.folder.iterdir()} == {0o600}
    assert len(list(store.folder.iterdir())) == 3


def test_only_identifiers_are_names(store: Store) -> None:
    for name in ("", "..", "../secret", ID + "/..", ID + "\0", ID.upper(), ID[:-1], ID + "0", "%2e%2e", ID + "-99999"):
        assert store.open(name, ".onnx") is None and store.entry(name) is None, name


def test_links_pipes_folders_and_files_that_others_can_write_are_refused(store: Store, tmp_path: Path) -> None:
    os.mkfifo(store.folder / ("a" * 20 + ".onnx"))
    (store.folder / ("b" * 20 + ".onnx")).mkdir()
    loose = store.folder / ("c" * 20 + ".onnx")
    loose.write_bytes(b"x")
    os.chmod(loose, 0o666)
    for name in "abc":
        assert store.open(name * 20, ".onnx") is None
    (tmp_path / "secret").write_text("secret")
    other = "f" * 20
    (store.folder / f"{other}.json").write_bytes((store.folder / f"{ID}.json").read_bytes())
    os.chmod(store.folder / f"{other}.json", 0o600)
    (store.folder / f"{other}.onnx").symlink_to(tmp_path / "secret")
    assert store.entry(other) is not None
    assert read(store, other, ".onnx") is None
    assert resources.respond(store, f"models/{other}/model.onnx").status == 404


def test_a_linked_folder_is_refused(store: Store, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "oplab-viewer").symlink_to(store.folder)
    linked = Store(tmp_path / "elsewhere")
    assert linked.entry(ID) is None
    with pytest.raises(OplabError, match="not a folder of yours"):
        linked.put(ID, "x", ".onnx", b"", None)


def test_another_users_files_are_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown(store.folder / f"{ID}.onnx", 65534, 65534)
        assert store.open(ID, ".onnx") is None
        os.chown(store.folder, 65534, 65534)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)  # the same seen from the other side
    assert store.entry(ID) is None
    with pytest.raises(OplabError, match="not a folder of yours"):
        store.put(ID, "x", ".onnx", b"", None)


def test_an_interrupted_write_leaves_nothing(store: Store) -> None:
    def fail(out: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.put("9" * 20, "x", ".onnx", b"p", fail)
    assert store.entry("9" * 20) is None
    assert not [f for f in store.folder.iterdir() if f.name.startswith(".new")]


def test_old_models_go(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in store.folder.iterdir():
        os.utime(file, (0, 0))
    store.put("1" * 20, "new", ".onnx", b"p", None)
    assert store.entry(ID) is None and store.entry("1" * 20) is not None
    monkeypatch.setattr("oplab.viewer.store.MAX_BYTES", 10)
    for file in store.folder.iterdir():
        os.utime(file, (file.stat().st_mtime - 3600,) * 2)
    store.put("2" * 20, "newer", ".onnx", b"p" * 100, None)
    assert store.entry("1" * 20) is None and store.entry("2" * 20) is not None


# --- pages ---


def test_the_page_is_upstreams_with_few_differences() -> None:
    ours, theirs = resources.index().decode(), (resources.netron_folder() / "index.html").read_text()
    assert '<meta name="version" content="0.0.0">' in ours and 'name="date"' not in ours
    assert ours.index("quiet.js") < ours.index('src="index.js"')
    undone = ours.replace('<script type="text/javascript" src="quiet.js"></script>\n', "")
    undone = re.sub(r'<link rel="modulepreload" href="[a-z0-9-]+\.js">\n', "", undone)
    undone = undone.replace('content="0.0.0"', f'content="{resources.netron_version()}"')
    assert undone == re.sub(r'<meta name="date" content="[^"]*">\n', "", theirs)
    assert "Lutz Roeder" in ours


def test_netrons_files_are_served_unchanged(store: Store) -> None:
    version = resources.netron_version()
    for name in ("view.js", "onnx.js", "onnx-metadata.json", "grapher.css", "icon.png"):
        reply = resources.respond(store, f"netron/{version}/{name}")
        assert reply.status == 200 and reply.body == (resources.netron_folder() / name).read_bytes()
        assert "immutable" in reply.headers["Cache-Control"]
    reply = resources.respond(store, f"netron/{version}/onnx-metadata.json", "cb=123")
    assert reply.status == 302 and reply.headers["Location"] == "onnx-metadata.json"


def test_nothing_else_is_served(store: Store) -> None:
    paths = ("../store.py", "..%2fstore.py", "server.py", "/etc/passwd", "a/../index.js", ".", "index.js/", "\0.js")
    for path in paths:
        assert resources.respond(store, f"netron/{resources.netron_version()}/{path}").status == 404, path
        assert resources.respond(store, path).status == 404, path


def test_the_browser_is_told_to_stay_at_home(store: Store) -> None:
    policy = resources.respond(store, f"netron/{resources.netron_version()}/").headers["Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["connect-src"] == rules["script-src"] == "'self'"
    assert not re.search(r"https?:|\*", policy)


def test_a_models_answers(store: Store) -> None:
    facts = json.loads(resources.respond(store, f"models/{ID}").body)
    assert facts["name"] == "tiny" and facts["netron"] == resources.netron_version()
    assert facts["page"].endswith(f"?url=../../models/{ID}/model.onnx&identifier=tiny.onnx")
    reply = resources.respond(store, f"models/{ID}/model.onnx")
    assert os.read(reply.descriptor, 100) == b"payload" and reply.size == 7
    os.close(reply.descriptor)
    for wrong in ("model.netron", "x", "model.onnx/", ".json", "../" + ID):
        assert resources.respond(store, f"models/{ID}/{wrong}").status == 404


# --- identifiers ---


def test_same_picture_other_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    monkeypatch.setattr(view, "kernel_store", lambda: store)
    monkeypatch.setattr(view, "_shown", {})
    other = m.conv()
    other.graph.initializer[0].raw_data = bytes(len(other.graph.initializer[0].raw_data))
    other.graph.node[0].doc_string = "a stack trace with this machine's paths"
    noted = m.conv()
    noted.graph.node[0].doc_string = "File /home/ada/model.py, line 3"

    def model_of(proto: object) -> str:
        return re.search('data-models="([^"]*)"', show(proto).html)[1]

    first = model_of(m.conv())
    assert model_of(other) == first + "-2" and model_of(m.conv()) == first and model_of(noted) == first
    assert re.fullmatch("[0-9a-f]{20}", first) and identify("x") == identify("x") != identify("y")


def test_show_survives_a_folder_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "oplab-viewer").write_text("a file in the way")
    monkeypatch.setattr(view, "kernel_store", lambda: Store(tmp_path))
    assert "<img" in show(m.conv()).html
    assert "Netron is not available" in capsys.readouterr().err


def test_show_on_the_command_line_serves_until_ctrl_c(tmp_path: Path) -> None:
    import onnx

    onnx.save(m.custom(), tmp_path / "model.onnx")
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # in a shell's background it is ignored, and inherited
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "oplab.cli", "show", str(tmp_path / "model.onnx")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "BROWSER": "true"},
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.stdout.readline().startswith("model.onnx: 1 node")
    address = process.stdout.readline().strip()
    assert b"oplab-view" in urllib.request.urlopen(address, timeout=120).read()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=90)
    assert process.returncode == 0 and errors == ""
    with pytest.raises(OSError):
        urllib.request.urlopen(address, timeout=2)


def test_the_extension_is_switched_on_by_the_package() -> None:
    file = Path(sys.prefix) / "etc" / "jupyter" / "jupyter_server_config.d" / "oplab.json"
    config = json.loads(file.read_text())
    assert config["ServerApp"]["jpserver_extensions"] == {"oplab.viewer.server": True, "oplab.jupyter.server": True}
