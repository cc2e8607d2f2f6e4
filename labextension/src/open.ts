/** Opens lessons and answers where they belong: an answer next to its lesson, at its line. */
import { ILabShell } from '@jupyterlab/application';
import { CodeMirrorEditor } from '@jupyterlab/codemirror';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { IDocumentWidget } from '@jupyterlab/docregistry';
import { codeFolding, foldEffect, foldState } from '@codemirror/language';
import { EditorSelection } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { Widget } from '@lumino/widgets';

/** Below this width two documents next to each other are too narrow to read. */
const NARROW = 760;

/** A window of this width has no room for the panel and a document. */
export const SMALL = 640;

const WIDE = 'oplab-mod-wide';

export class Opener {
  constructor(
    readonly documents: IDocumentManager,
    readonly shell: ILabShell
  ) {}

  /** The document in front, relative to Jupyter's root, or ''. */
  get path(): string {
    const widget = this.shell.currentWidget;
    return (widget && this.documents.contextForWidget(widget)?.path) || '';
  }

  /** Opens a lesson or a report, or shows it where it is open: with the other lessons, not in the group of the answers. */
  async page(path: string): Promise<void> {
    const other = [...this.shell.widgets('main')].find(widget => !editorOf(widget) && !widget.hasClass(WIDE));
    const place = other ? ({ mode: 'tab-after', ref: other.id } as const) : {};
    const open = this.documents.findWidget(path) ?? this.documents.open(path, 'default', undefined, place);
    if (open) {
      this.shell.activateById(open.id);
      this._makeRoom();
      await open.context.ready;
    }
  }

  /**
   * Opens an answer next to the lesson, and goes to a line.
   *
   * @param path - relative to Jupyter's root
   * @param line - counted from 1
   * @param lesson - the lesson that it belongs to, if it is open
   * @param alone - fold the file's other functions
   */
  async answer(path: string, line: number, lesson: string | null = null, alone = false): Promise<void> {
    const widget = this.documents.findWidget(path) ?? this._openNextTo(path, lesson);
    if (!widget) {
      return;
    }
    this.shell.activateById(widget.id);
    this._makeRoom();
    await widget.context.ready;
    const editor = editorOf(widget);
    if (editor) {
      const view = editor.editor;
      const at = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines));
      // once it has its size: a new tab has none in this moment
      await new Promise(resolve => requestAnimationFrame(resolve));
      const from = alone ? foldOthers(editor, at.number) : at.from;
      view.dispatch({
        selection: { anchor: at.from + (/^\s*/.exec(at.text)?.[0].length ?? 0) },
        effects: EditorView.scrollIntoView(EditorSelection.range(from, at.from), { y: 'center' })
      });
      editor.focus();
    }
  }

  /** Saves a document that is open and was changed. */
  async save(path: string): Promise<void> {
    const widget = this.documents.findWidget(path);
    if (widget?.context.model.dirty && !widget.context.model.readOnly) {
      await widget.context.save();
    }
  }

  /** Saves every document that is open and was changed. */
  async saveAll(): Promise<void> {
    for (const widget of this.shell.widgets('main')) {
      const context = this.documents.contextForWidget(widget);
      if (context) {
        await this.save(context.path);
      }
    }
  }

  /** Reads an open document again from its file. */
  async revert(path: string): Promise<void> {
    await this.documents.findWidget(path)?.context.revert();
  }

  /** Shows a widget at full width, below the documents; an older one with its id goes. */
  wide(widget: Widget): void {
    const open = [...this.shell.widgets('main')].filter(entry => entry.hasClass(WIDE));
    const group = open.find(entry => entry.id !== widget.id);
    open.find(entry => entry.id === widget.id)?.dispose();
    widget.addClass(WIDE);
    // with a ref that does not exist, the whole area is split and not the tab in front
    this.shell.add(widget, 'main', group ? { mode: 'tab-after', ref: group.id } : { mode: 'split-bottom', ref: WIDE });
    this.shell.activateById(widget.id);
    this._makeRoom();
  }

  /** On a small screen the panel covers what was opened. */
  private _makeRoom(): void {
    if (window.innerWidth < SMALL) {
      this.shell.collapseLeft();
    }
  }

  private _openNextTo(path: string, lesson: string | null): IDocumentWidget | undefined {
    const near = lesson ? this.documents.findWidget(lesson) : undefined;
    const other = this._answers(near);
    if (other) {
      return this.documents.open(path, 'default', undefined, { mode: 'tab-after', ref: other.id });
    }
    const ref = near ?? this.shell.currentWidget;
    const wide = (ref?.node.offsetWidth ?? 0) >= NARROW;
    return this.documents.open(path, 'default', undefined, { mode: wide ? 'split-right' : 'tab-after', ref: ref?.id ?? null });
  }

  /** A text editor that is open next to the lesson: the next answer becomes a tab of its group. */
  private _answers(lesson: Widget | undefined): Widget | undefined {
    const left = lesson?.node.getBoundingClientRect();
    for (const widget of this.shell.widgets('main')) {
      if (widget !== lesson && this.documents.contextForWidget(widget) && editorOf(widget)) {
        const box = widget.parent?.node && widget.node.isConnected ? widget.node.getBoundingClientRect() : null;
        // a hidden tab has no place; the one of its group that is shown has
        if (!left || !lesson?.isVisible || !box || box.width === 0 || box.left >= left.right) {
          return widget;
        }
      }
    }
    return undefined;
  }
}

/** Folds the top-level functions and classes of a Python file but the one with this line, and returns where that one begins. */
function foldOthers(editor: CodeMirrorEditor, number: number): number {
  const { doc } = editor.state;
  const text = doc.toString().split('\n');
  let begin = doc.line(number).from;
  const effects = [];
  for (let first = 0; first < text.length; first++) {
    if (/^(async +)?(def|class) /.test(text[first]!)) {
      const head = text.findIndex((line, at) => at >= first && /:\s*(#.*)?$/.test(line));
      let last = head;
      for (let at = head + 1; at < text.length && !/^\S/.test(text[at]!); at++) {
        last = text[at]!.trim() ? at : last;
      }
      if (first < number && number <= last + 1) {
        begin = doc.line(first + 1).from;
      } else if (last > head) {
        effects.push(foldEffect.of({ from: doc.line(head + 1).to, to: doc.line(last + 1).to }));
      }
    }
  }
  if (!editor.state.field(foldState, false)) {
    editor.injectExtension(codeFolding());
  }
  editor.editor.dispatch({ effects });
  return begin;
}

/** The editor of a file, or null: a notebook has one for each cell. */
export function editorOf(widget: Widget): CodeMirrorEditor | null {
  const { content } = widget as { content?: { editor?: unknown } };
  const editor = content?.editor;
  // by what it can do: an instance of another copy of the class is as good
  return editor && (editor as CodeMirrorEditor).editor instanceof EditorView ? (editor as CodeMirrorEditor) : null;
}
