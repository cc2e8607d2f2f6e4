"""How well text can be read on a page."""

from __future__ import annotations

from typing import Any


def contrast(page: Any, selector: str) -> float:
    """The worst contrast of these elements' text with what lies behind them, after WCAG."""
    return page.evaluate(
        """selector => {
          const parse = c => c.match(/[\\d.]+/g).map(Number);
          const light = c => { const [r, g, b] = parse(c).map(v => { v /= 255;
            return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 }); return .2126 * r + .7152 * g + .0722 * b };
          const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
            const p = parse(c); if (p.length < 4 || p[3] > 0) return c } return 'rgb(255,255,255)' };
          return Math.min(...[...document.querySelectorAll(selector)].map(e => {
            const a = light(getComputedStyle(e).color), b = light(behind(e));
            return (Math.max(a, b) + .05) / (Math.min(a, b) + .05) })) }""",
        selector,
    )
