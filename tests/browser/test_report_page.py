"""The HTML report in Chromium: nothing is asked of the network, no script runs, it fits a narrow window and can be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oplab import reports
from tests.support import ROOT
from tests.support.contrast import contrast

pytestmark = pytest.mark.nightly
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><script>alert(2)</script></svg>'


@pytest.fixture
def report(tmp_path) -> Path:
    """The fixture course's results, with a message that wants to be a script and a picture that holds one."""
    results = json.loads((ROOT / "tests" / "golden" / "results.json").read_text(encoding="utf-8"))
    entry = next(entry for entry in results["exercises"] if entry["id"] == "c01.fails")
    message = "<script>alert(1)</script><img src=x onerror=alert(3)> " + "x" * 300
    entry.update(message=message, graphs=[{"name": "model", "svg": SVG}])
    entry["checks"] = [{"name": "<b>doubles", "passed": False, "message": message}]
    file = tmp_path / "report.html"
    file.write_text(reports.render("html", results), encoding="utf-8")
    return file


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page(scheme, report, new_page):
    page = new_page(color_scheme=scheme, viewport={"width": 420, "height": 900})
    alerts = []
    page.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
    page.goto(report.as_uri())
    assert "<script>alert(1)</script><img" in page.inner_text('[id="c01.fails"]')
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("document.images.length === 1 && document.images[0].naturalWidth === 40")
    for selector in ("article .state", "article pre", "p.message", "summary", "h2 span", "th", "footer"):
        assert contrast(page, selector) >= 4.5, selector
    assert alerts == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
    assert page.pdf().startswith(b"%PDF")
