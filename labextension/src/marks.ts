/** The places of an outcome in the open editor: a mark in the gutter, and the line itself. */
import { CodeMirrorEditor } from '@jupyterlab/codemirror';
import { TranslationBundle } from '@jupyterlab/translation';
import { Compartment, Extension, Range, RangeSet, StateEffect, StateField } from '@codemirror/state';
import { Decoration, DecorationSet, EditorView, gutter, GutterMarker, WidgetType } from '@codemirror/view';

export interface Mark {
  id: string;
  line: number;
  message: string;
}

/** The message at the end of its line, for screen readers: a gutter is not read. */
class Spoken extends WidgetType {
  constructor(readonly text: string) {
    super();
  }

  eq(other: Spoken): boolean {
    return other.text === this.text;
  }

  toDOM(): HTMLElement {
    const node = document.createElement('span');
    node.className = 'oplab-hidden';
    node.textContent = ` ${this.text}`;
    return node;
  }
}

class Sign extends GutterMarker {
  constructor(readonly mark: Mark) {
    super();
  }

  eq(other: Sign): boolean {
    return other.mark.id === this.mark.id && other.mark.message === this.mark.message;
  }

  toDOM(): HTMLElement {
    const node = document.createElement('span');
    node.className = 'oplab-Sign';
    node.title = this.mark.message;
    node.textContent = '✗';
    return node;
  }
}

interface Drawn {
  signs: RangeSet<Sign>;
  lines: DecorationSet;
}

const setMarks = StateEffect.define<Mark[]>();

/** Marks in the editors of files. An editor without any has no gutter of the course. */
export class Marks {
  /**
   * @param onOpen - called with a mark that is clicked
   */
  constructor(
    private readonly _trans: TranslationBundle,
    private readonly _onOpen: (mark: Mark) => void
  ) {}

  /** Shows these marks in an editor, and no others. */
  show(editor: CodeMirrorEditor, marks: Mark[]): void {
    let slot = this._slots.get(editor);
    if (!slot) {
      if (!marks.length) {
        return;
      }
      slot = new Compartment();
      this._slots.set(editor, slot);
      editor.injectExtension(slot.of([]));
    }
    const view = editor.editor;
    const has = view.state.field(this._field, false) !== undefined;
    if (marks.length && !has) {
      view.dispatch({ effects: slot.reconfigure(this._extension) });
    }
    if (marks.length) {
      view.dispatch({ effects: setMarks.of(marks) });
    } else if (has) {
      view.dispatch({ effects: slot.reconfigure([]) });
    }
  }

  private _draw(marks: Mark[], doc: { lines: number; line(n: number): { from: number; to: number } }): Drawn {
    const signs: Range<Sign>[] = [];
    const lines: Range<Decoration>[] = [];
    for (const mark of marks) {
      if (mark.line >= 1 && mark.line <= doc.lines) {
        const { from, to } = doc.line(mark.line);
        const text = this._trans.__('%1 reports here: %2', mark.id, mark.message);
        signs.push(new Sign(mark).range(from));
        lines.push(Decoration.line({ class: 'oplab-MarkedLine', attributes: { title: mark.message } }).range(from));
        lines.push(Decoration.widget({ widget: new Spoken(text), side: 1 }).range(to));
      }
    }
    // sorted here: two marks may share a line
    return { signs: RangeSet.of(signs, true), lines: Decoration.set(lines, true) };
  }

  /** Lines move with what is written above them; they stay marked until the next check. */
  private readonly _field = StateField.define<Drawn>({
    create: () => ({ signs: RangeSet.empty, lines: Decoration.none }),
    update: (drawn, change) => {
      let { signs, lines } = drawn;
      if (change.docChanged) {
        signs = signs.map(change.changes);
        lines = lines.map(change.changes);
        drawn = { signs, lines };
      }
      for (const effect of change.effects) {
        if (effect.is(setMarks)) {
          drawn = this._draw(effect.value, change.state.doc);
        }
      }
      return drawn;
    },
    provide: field => EditorView.decorations.from(field, drawn => drawn.lines)
  });

  private readonly _extension: Extension = [
    this._field,
    gutter({
      class: 'oplab-Gutter',
      markers: view => view.state.field(this._field).signs,
      domEventHandlers: {
        mousedown: (view, line) => {
          let found: Mark | null = null;
          view.state.field(this._field).signs.between(line.from, line.to, (_from, _to, sign) => {
            found ??= sign.mark;
          });
          if (found) {
            this._onOpen(found);
          }
          return found !== null;
        }
      }
    })
  ];

  private readonly _slots = new WeakMap<CodeMirrorEditor, Compartment>();
}
