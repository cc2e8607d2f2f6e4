/** Keeps the marks in open editors as the last outcomes say. */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { IDocumentWidget } from '@jupyterlab/docregistry';
import { IEditorTracker } from '@jupyterlab/fileeditor';
import { TranslationBundle } from '@jupyterlab/translation';

import { Mark, Marks } from './marks';
import { CourseModel } from './model';
import { editorOf } from './open';

/** The marks of a file: of the exercises that were graded as they are, and did not pass. */
function marksOf(model: CourseModel, path: string): Mark[] {
  return [...model.outcomes.values()]
    .filter(outcome => outcome.status !== 'passed' && !outcome.stale && model.runningSince(outcome.id) === null)
    .flatMap(outcome =>
      (outcome.places ?? [])
        .filter(place => place.file === path)
        .map(place => ({ id: outcome.id, line: place.line, message: place.message }))
    );
}

/** Marks the editors that are open, and those that will be. */
export function followEditors(
  editors: IEditorTracker,
  model: CourseModel,
  trans: TranslationBundle,
  onOpen: (mark: Mark) => void
): void {
  const marks = new Marks(trans, onOpen);
  const shown = new WeakMap<IDocumentWidget, string>();

  const draw = (widget: IDocumentWidget) => {
    const editor = editorOf(widget);
    if (!editor || widget.isDisposed || !widget.context.isReady) {
      return;
    }
    const wanted = marksOf(model, widget.context.path);
    const key = JSON.stringify(wanted);
    // only what changed: a mark that moved with its text stays where it is
    if (key !== (shown.get(widget) ?? '[]')) {
      shown.set(widget, key);
      marks.show(editor, wanted);
    }
  };

  const saving = new WeakSet<IDocumentWidget>();
  const known = new WeakMap<IDocumentWidget, number>();

  /** Loads a file that something else has written, as `oplab reset` does; where the editor has other changes, its user decides. */
  const reload = async (widget: IDocumentWidget) => {
    const { context } = widget;
    const written = model.exercisesOf(context.path)[0]?.written ?? 0;
    const loaded = Date.parse(context.contentsModel?.last_modified ?? '');
    // a fraction of a millisecond is lost on the way
    if (!context.isReady || saving.has(widget) || known.get(widget) === written || !(written * 1000 - loaded > 1)) {
      return;
    }
    known.set(widget, written);
    if (context.model.dirty) {
      const answer = await showDialog({
        title: trans.__('%1 has changed on disk', context.path),
        body: trans.__('A terminal or a notebook has written it, and this editor has changes that are not saved.'),
        buttons: [Dialog.cancelButton({ label: trans.__('Keep my changes') }), Dialog.warnButton({ label: trans.__('Load the file') })],
        defaultButton: 0
      });
      if (!answer.button.accept) {
        return;
      }
    }
    await context.revert();
  };

  const watch = (widget: IDocumentWidget) => {
    const { context } = widget;
    context.saveState.connect((_, state) => {
      if (state === 'started') {
        saving.add(widget);
      } else {
        saving.delete(widget);
        void reload(widget);
      }
    });
    const compare = () => {
      const written = Date.parse(context.contentsModel?.last_modified ?? '');
      if (!Number.isNaN(written)) {
        model.touched(context.path, written / 1000);
      }
    };
    context.fileChanged.connect(compare);
    void context.ready.then(() => {
      for (const exercise of model.exercisesOf(context.path)) {
        if (exercise.headline) {
          void model.load(exercise.id);
        }
      }
      draw(widget);
    });
  };

  editors.forEach(watch);
  editors.widgetAdded.connect((_, widget) => watch(widget));
  const all = () => editors.forEach(draw);
  model.outcomeChanged.connect(all);
  model.changed.connect(all);
  model.changed.connect(() => editors.forEach(widget => void reload(widget)));
}
