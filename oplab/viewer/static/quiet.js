// Runs in Netron's page before Netron does. Netron's own files stay as they are on disk.
(() => {
    'use strict';
    // Netron asks for consent when it finds no such cookie. Nothing is sent from here, so there is nothing to consent to;
    // and with this, no cookie is ever set either.
    Object.defineProperty(document, 'cookie', { get: () => 'consent=1', set: () => {} });

    // A graph that has just been drawn must not take the keyboard away from the notebook.
    const focus = HTMLElement.prototype.focus;
    HTMLElement.prototype.focus = function (...args) {
        if (window.parent === window || document.hasFocus()) {
            focus.apply(this, args);
        }
    };

    // Until somebody clicks into the graph, the wheel scrolls the notebook and not the graph under the pointer.
    const frame = window.frameElement;
    if (!frame) {
        return;
    }
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
        if (document.hasFocus() || event.ctrlKey || event.shiftKey) {
            return;
        }
        event.preventDefault();
        event.stopImmediatePropagation();
        const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? window.innerHeight : 1;
        scroller().scrollBy(event.deltaX * unit, event.deltaY * unit);
    }, { capture: true, passive: false });
})();
