// Puts the real Netron into a saved output, where a live Jupyter Server has the model.
// The output itself holds the static picture and a short script that imports this file.

const STYLE = `
.oplab-bar{display:flex;gap:4px;align-items:center;margin:0 0 4px;font:12px/1.6 var(--jp-ui-font-family,system-ui,sans-serif);
  color:var(--jp-ui-font-color2,#555)}
.oplab-bar button{font:inherit;color:inherit;background:none;border:1px solid var(--jp-border-color1,#bbb);border-radius:4px;
  padding:0 8px;cursor:pointer}
.oplab-bar button[aria-pressed=true]{color:var(--jp-ui-font-color1,#111);background:var(--jp-layout-color2,#eee);font-weight:600}
.oplab-bar button:focus-visible{outline:2px solid var(--jp-brand-color1,#1976d2);outline-offset:1px}
.oplab-credit{margin-left:auto;font-size:11px}
.oplab-stage{position:relative}
.oplab-frame{width:100%;border:1px solid var(--jp-border-color2,#ddd);border-radius:6px;box-sizing:border-box;display:block}
.oplab-frame[data-waiting]{position:absolute;top:0;left:0;visibility:hidden;pointer-events:none}
@media print{.oplab-bar,.oplab-frame{display:none!important}.oplab-picture{display:block!important}}
`;
const PATIENCE = 60000; // ms that Netron may take before the picture stays
const MOST = 8; // Netrons that are open at once, of those out of sight; each takes some 20 MB
const open = []; // [view, model], the one longest out of sight first
let styled = false;

function style() {
    if (!styled) {
        const element = document.createElement('style');
        element.textContent = STYLE;
        document.head.append(element);
        styled = true;
    }
}

function dark() {
    return document.body.dataset.jpThemeLight === 'false' ||
        (document.body.dataset.jpThemeLight === undefined && matchMedia('(prefers-color-scheme: dark)').matches);
}

function paint(frame) {
    frame.dataset.theme = dark() ? 'dark' : 'light';
    frame.style.colorScheme = frame.dataset.theme;
}

/** Resolves when Netron has drawn the graph, rejects when it shows an error instead. */
function drawn(frame) {
    return new Promise((resolve, reject) => {
        const start = Date.now();
        const look = () => {
            const body = frame.contentDocument && frame.contentDocument.body;
            const state = body ? body.classList : null;
            if (!frame.isConnected || Date.now() - start > PATIENCE) {
                reject(new Error('Netron did not draw the graph.'));
            } else if (state && state.contains('alert')) {
                const text = frame.contentDocument.getElementById('message-text');
                reject(new Error(text ? text.innerText : 'Netron cannot open this model.'));
            } else if (state && state.contains('default') && !state.contains('spinner')) {
                resolve();
            } else {
                setTimeout(look, 30);
            }
        };
        look();
    });
}

/** Netron leaves a wide margin above the first node; a graph that does not fit begins at its top instead. */
function begin(frame) {
    const target = frame.contentDocument.getElementById('target');
    const first = frame.contentDocument.getElementById('origin');
    if (target && first && target.scrollHeight > target.clientHeight) {
        target.scrollTop += Math.max(0, first.getBoundingClientRect().top - target.getBoundingClientRect().top - 16);
    }
}

function frameFor(model) {
    const frame = document.createElement('iframe');
    frame.className = 'oplab-frame';
    frame.title = `Netron: ${model.name}`;
    paint(frame);
    frame.src = model.page;
    return frame;
}

/** The toolbar, the picture and one Netron a model; only what is looked at is loaded. */
class View {
    constructor(element, models) {
        this.element = element;
        this.picture = element.querySelector('.oplab-picture');
        this.stage = document.createElement('div');
        this.stage.className = 'oplab-stage';
        this.frames = new Map();
        this.visible = true;
        this.picture.replaceWith(this.stage);
        this.stage.append(this.picture);
        this.bar = document.createElement('div');
        this.bar.className = 'oplab-bar';
        this.bar.setAttribute('role', 'group');
        this.bar.setAttribute('aria-label', 'How the graph is shown');
        this.buttons = [];
        for (const model of models) {
            this.button(models.length > 1 ? `Netron: ${model.name}` : 'Netron', model);
        }
        this.button('Picture', null);
        const wide = document.createElement('button');
        wide.type = 'button';
        wide.textContent = 'Larger';
        wide.addEventListener('click', () => this.enlarge(this.wanted || models[0]));
        this.bar.append(wide);
        const credit = document.createElement('span');
        credit.className = 'oplab-credit';
        credit.textContent = `Netron ${models[0].netron} by Lutz Roeder, MIT licence`;
        this.bar.append(credit);
        this.stage.before(this.bar);
        new MutationObserver(() => this.theme()).observe(document.body, { attributeFilter: ['data-jp-theme-light'] });
        this.show(models.length === 1 ? models[0] : null);
    }

    button(label, model) {
        const button = document.createElement('button');
        button.type = 'button';
        button.textContent = label;
        button.addEventListener('click', () => this.show(model));
        this.buttons.push([button, model]);
        this.bar.append(button);
    }

    /** In a tab of JupyterLab where the course's panel is, else in one of the browser. */
    enlarge(model) {
        const frame = frameFor(model);
        if (this.element.dispatchEvent(new CustomEvent('oplab-wide', { bubbles: true, cancelable: true, detail: frame }))) {
            window.open(model.page);
        }
    }

    /** Told when the output comes into sight or leaves it. */
    seen(visible) {
        this.visible = visible;
        const mine = open.filter(([view]) => view === this);
        open.splice(0, open.length, ...open.filter(([view]) => view !== this), ...mine);
        if (visible && this.wanted && !this.frames.has(this.wanted)) {
            this.show(this.wanted);
        }
    }

    /** Give a Netron's memory back; it is opened again when somebody looks. */
    close(model) {
        this.frames.get(model).remove();
        this.frames.delete(model);
        this.picture.style.display = '';
        this.element.dataset.shown = 'picture';
    }

    theme() {
        for (const frame of this.frames.values()) {
            paint(frame);
        }
    }

    async show(model) {
        this.wanted = model;
        for (const [button, its] of this.buttons) {
            button.setAttribute('aria-pressed', String(its === model));
        }
        if (model && !this.frames.has(model)) {
            const frame = frameFor(model);
            frame.style.height = `${Number(this.element.dataset.height) || 420}px`;
            frame.dataset.waiting = '';
            this.stage.append(frame);
            this.frames.set(model, frame);
            open.push([this, model]);
            this.spare();
            try {
                await drawn(frame);
                begin(frame);
                delete frame.dataset.waiting;
            } catch (error) {
                if (this.frames.get(model) === frame) { // else it was closed meanwhile, and nothing is wrong
                    frame.remove();
                    this.frames.delete(model);
                    this.fail(model, error);
                }
                return;
            }
        }
        if (this.wanted === model) {
            this.picture.style.display = model ? 'none' : '';
            for (const [its, frame] of this.frames) {
                if (!('waiting' in frame.dataset)) {
                    frame.style.display = its === model ? '' : 'none';
                }
            }
            this.element.dataset.shown = model ? 'netron' : 'picture';
        }
    }

    spare() {
        const gone = open.filter(([view, model]) => !view.frames.has(model) || !view.element.isConnected);
        gone.forEach((entry) => open.splice(open.indexOf(entry), 1));
        for (const entry of [...open]) {
            const [view, model] = entry;
            if (open.length > MOST && !view.visible) {
                open.splice(open.indexOf(entry), 1);
                view.close(model);
            }
        }
    }

    fail(model, error) {
        for (const entry of this.buttons) {
            if (entry[1] === model) {
                entry[0].disabled = true;
                entry[0].title = error.message;
            }
        }
        if (this.wanted === model) {
            this.show(null);
        }
    }
}

async function start(element, base) {
    const models = [];
    for (const id of (element.dataset.models || '').split(' ').filter(Boolean)) {
        const url = new URL(`oplab/viewer/models/${id}`, base);
        const answer = await fetch(url, { credentials: 'same-origin', cache: 'no-store' });
        if (answer.ok) {
            const model = await answer.json();
            model.page = new URL(model.page, base).href;
            models.push(model);
        }
    }
    if (models.length && element.isConnected) {
        style();
        return new View(element, models);
    }
    return null;
}

/**
 * Called by the script in each saved output.
 * @param {HTMLElement} element the output
 * @param {string} baseUrl Jupyter's base URL, such as /user/name/
 */
export function mount(element, baseUrl) {
    if (element.dataset.mounted) {
        return;
    }
    element.dataset.mounted = '1';
    const base = new URL(baseUrl, window.location.origin);
    // thirty graphs in a notebook are loaded as they come into sight
    let view = null;
    const observer = new IntersectionObserver((entries) => {
        const visible = entries[entries.length - 1].isIntersecting;
        if (view === null && visible) {
            // without the server's answer the picture stays
            view = start(element, base).catch(() => null);
        } else if (view !== null) {
            view.then((it) => it && it.seen(visible));
        }
    }, { rootMargin: '300px' });
    observer.observe(element);
}
