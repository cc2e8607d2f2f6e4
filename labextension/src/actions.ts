/** What the buttons do. */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';

import { Chapter, Exercise } from './api';
import { CourseModel } from './model';
import { Opener } from './open';

export class Actions {
  constructor(
    readonly model: CourseModel,
    readonly opener: Opener,
    readonly trans: TranslationBundle,
    /** Changes the setting `checkOnSave`. */
    readonly setCheckOnSave: (value: boolean) => Promise<void>,
    /** Shows the start page. */
    readonly openStart: () => void,
    /** Shows an outcome's graphs in a tab, where they have room. */
    readonly openGraphs: (id: string) => void
  ) {}

  /** Opens a chapter's lesson. */
  async openLesson(chapter: Chapter): Promise<void> {
    this.model.enter(chapter.stem);
    if (chapter.lesson) {
      const { lesson } = chapter;
      await this.model.attempt('', () => this.opener.page(lesson));
    }
  }

  /** Opens the lesson of an exercise, and its answer next to it. */
  async open(exercise: Exercise): Promise<void> {
    const chapter = this._chapterOf(exercise.id);
    if (chapter) {
      await this.openLesson(chapter);
    }
    if (exercise.file) {
      await this.openPlace(exercise.file, exercise.line, exercise.id);
    }
  }

  /** Opens a line of a file, relative to Jupyter's root. */
  async openPlace(file: string, line: number, id = ''): Promise<void> {
    const exercise = id || this.model.exercisesOf(file)[0]?.id || '';
    await this.model.attempt(id, () => this.opener.answer(file, line, this._chapterOf(exercise)?.lesson ?? null));
  }

  /** Opens a link of a card: its file is relative to the course. */
  async openLink(link: HTMLElement): Promise<boolean> {
    const { folder } = this.model;
    const file = link.dataset.oplabFile;
    if (folder === null || !file || file.split('/').includes('..') || file.startsWith('/')) {
      return false;
    }
    await this.openPlace(folder + file, Number(link.dataset.oplabLine) || 1);
    return true;
  }

  /** Saves the answer, and grades it. */
  async check(exercise: Exercise): Promise<void> {
    await this.model.attempt(exercise.id, async () => {
      if (exercise.file) {
        await this.opener.save(exercise.file);
        await this.model.api.saved(exercise.file);
      }
      await this.model.api.check([exercise.id]);
    });
  }

  async stop(id: string): Promise<void> {
    await this.model.attempt(id, () => this.model.api.cancel());
  }

  async hint(exercise: Exercise): Promise<void> {
    await this.model.attempt(exercise.id, async () => {
      const { html } = await this.model.api.hint(exercise.id);
      this.model.show(exercise.id, { kind: 'hint', html });
    });
  }

  /** Shows the difference or the reference answer, or puts it away. */
  async toggle(exercise: Exercise, kind: 'difference' | 'reference'): Promise<void> {
    if (this.model.extras.get(exercise.id)?.kind === kind) {
      this.model.show(exercise.id, null);
      return;
    }
    await this.model.attempt(exercise.id, async () => {
      const { html } = await this.model.api[kind](exercise.id);
      this.model.show(exercise.id, { kind, html });
    });
  }

  /** Asks, and puts the stub back. */
  async reset(exercise: Exercise): Promise<void> {
    const { trans } = this;
    const answer = await showDialog({
      title: trans.__('Reset %1?', exercise.name),
      body: trans.__(
        'Your answer is replaced by the stub. A copy of your file is kept in build/backup/.'
      ),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Keep my answer') }),
        Dialog.warnButton({ label: trans.__('Reset') })
      ],
      // Enter does what loses nothing
      defaultButton: 0
    });
    if (answer.button.accept) {
      await this.model.attempt(exercise.id, async () => {
        if (exercise.file) {
          // what is not saved yet belongs into the copy that is kept
          await this.opener.save(exercise.file);
        }
        await this.model.api.reset(exercise.id);
        this.model.show(exercise.id, null);
        if (exercise.file) {
          await this.opener.revert(exercise.file);
        }
      });
    }
  }

  /** Replaces the learner's copy of a lesson by the newer one. */
  async resetLesson(chapter: Chapter): Promise<void> {
    const { trans } = this;
    const answer = await showDialog({
      title: trans.__('Take the new lesson?'),
      body: trans.__('Your copy of this lesson is replaced. A backup is kept in build/backup/.'),
      buttons: [Dialog.cancelButton({ label: trans.__('Keep my copy') }), Dialog.warnButton({ label: trans.__('Take the new one') })],
      defaultButton: 0
    });
    if (answer.button.accept) {
      await this.model.attempt('', async () => {
        await this.model.api.reset(`notebooks/${chapter.stem.split('_')[0]}`);
        if (chapter.lesson) {
          await this.opener.revert(chapter.lesson);
        }
      });
    }
  }

  private _chapterOf(id: string): Chapter | undefined {
    return this.model.state?.chapters.find(entry => entry.exercises.some(exercise => exercise.id === id));
  }
}
