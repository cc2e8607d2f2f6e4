// Runs in Netron's page before Netron does. Netron's own files stay as they are on disk.
(() => {
    'use strict';
    // Netron asks for consent when it finds no such cookie. Nothing is sent from here, so there is nothing to consent to;
    // and with this, no cookie is ever set either.
    Object.defineProperty(document, 'cookie', { get: () => 'consent=1', set: () => {} });

    // Netron keeps its options under a name that Jupyter may want; and a course about operators begins with attributes shown.
    const mine = (key) => key === 'options' ? 'oplab:netron:options' : key;
    const { getItem, setItem, removeItem } = Storage.prototype;
    Storage.prototype.getItem = function (key) {
        const value = getItem.call(this, mine(key));
        return key === 'options' && value === null ? '{"attributes":true}' : value;
    };
    Storage.prototype.setItem = function (key, value) {
        setItem.call(this, mine(key), value);
    };
    Storage.prototype.removeItem = function (key) {
        if (key === 'options') {
            setItem.call(this, mine(key), '{}'); // "as Netron has it" is a choice too
        } else {
            removeItem.call(this, key);
        }
    };

    const frame = window.frameElement;
    if (!frame) {
        return;
    }

    // The graph is in use from a click into it to a click beside it.
    let inUse = false;
    const focus = HTMLElement.prototype.focus;
    window.addEventListener('pointerdown', () => {
        inUse = true;
        window.focus();
    }, { capture: true });
    const beside = () => {
        inUse = false;
    };
    frame.ownerDocument.addEventListener('pointerdown', beside, { capture: true });
    window.addEventListener('pagehide', () => frame.ownerDocument.removeEventListener('pointerdown', beside, { capture: true }));

    // A graph that has just been drawn must not take the keyboard away from the notebook.
    HTMLElement.prototype.focus = function (...args) {
        if (inUse) {
            focus.apply(this, args);
        }
    };

    // Light or dark is Jupyter's choice here, not the system's.
    const theme = () => {
        const dark = frame.dataset.theme === 'dark';
        for (const sheet of document.styleSheets) {
            for (const rule of sheet.cssRules) {
                if (rule instanceof CSSMediaRule) {
                    rule.scheme = rule.scheme || (/prefers-color-scheme:\s*(dark|light)/.exec(rule.media.mediaText) || [])[1];
                    if (rule.scheme) {
                        rule.media.mediaText = (rule.scheme === 'dark') === dark ? 'all' : 'not all';
                    }
                }
            }
        }
    };
    if (frame.dataset.theme) {
        document.addEventListener('DOMContentLoaded', theme);
        new MutationObserver(theme).observe(frame, { attributeFilter: ['data-theme'] });
    }

    // Until then the wheel scrolls the notebook, and not the graph that happens to be under the pointer.
    const scroller = () => {
        const view = frame.ownerDocument.defaultView;
        for (let e = frame.parentElement; e; e = e.parentElement) {
            if (e.scrollHeight > e.clientHeight + 1 && /auto|scroll/.test(view.getComputedStyle(e).overflowY)) {
                return e;
            }
        }
        return frame.ownerDocument.scrollingElement;
    };
    window.addEventListener('wheel', (event) => {
        if (inUse || event.ctrlKey || event.shiftKey) {
            return;
        }
        event.preventDefault();
        event.stopImmediatePropagation();
        const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? window.innerHeight : 1;
        scroller().scrollBy(event.deltaX * unit, event.deltaY * unit);
    }, { capture: true, passive: false });
})();
