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
    /** Shows an exercise's last outcome, or the card of something else, in a tab, where it has room. */
    readonly openWide: (id: string, title: string, html?: string) => void
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
    const chapter = this.chapterOf(exercise.id);
    if (chapter) {
      await this.openLesson(chapter);
    }
    if (exercise.file) {
      const { file, line, kind, id } = exercise;
      await this.model.attempt(id, () => this.opener.answer(file, line, chapter?.lesson, kind === 'python'));
    }
  }

  /** The chapter of an exercise, where its lesson comes first: nothing of it was checked, and the lesson is not open. */
  unread(exercise: Exercise): Chapter | undefined {
    const chapter = this.chapterOf(exercise.id);
    const fresh = chapter?.exercises.every(entry => entry.status === 'todo' && !entry.passed_once);
    return fresh && chapter?.lesson && !this.opener.documents.findWidget(chapter.lesson) ? chapter : undefined;
  }

  /** Opens the next exercise, or only the lesson of a chapter that begins. */
  async resume(exercise: Exercise): Promise<void> {
    const chapter = this.unread(exercise);
    await (chapter ? this.openLesson(chapter) : this.open(exercise));
  }

  /** Opens a link of a card: its file is relative to the course. */
  async openLink(link: HTMLElement): Promise<boolean> {
    const { folder } = this.model;
    const file = link.dataset.oplabFile;
    if (folder === null || !file || file.split('/').includes('..') || file.startsWith('/')) {
      return false;
    }
    const chapter = this.chapterOf(this.model.exercisesOf(folder + file)[0]?.id ?? '');
    await this.model.attempt('', () => this.opener.answer(folder + file, Number(link.dataset.oplabLine) || 1, chapter?.lesson));
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
      this.model.showHints(exercise.id, html);
    });
  }

  /** Shows the difference or the reference answer; before a pass it asks, as the exercise counts half then. */
  async compare(exercise: Exercise, kind: 'difference' | 'reference'): Promise<void> {
    const { trans } = this;
    if (exercise.reference === 'half') {
      const answer = await showDialog({
        title: trans.__('Show the reference of %1?', exercise.name),
        body: trans.__(
          'The exercise then counts half in your progress: %1 of %2 points, once it passes.',
          Math.ceil(exercise.points / 2),
          exercise.points
        ),
        buttons: [Dialog.cancelButton({ label: trans.__('Keep trying') }), Dialog.warnButton({ label: trans.__('Show it') })],
        defaultButton: 0
      });
      if (!answer.button.accept) {
        return;
      }
    }
    await this.model.attempt(exercise.id, async () => {
      if (exercise.reference === 'half') {
        await this.model.api.show(exercise.id);
      }
      const { html } = await this.model.api[kind](exercise.id);
      const title = kind === 'difference' ? trans.__('Difference: %1', exercise.id) : trans.__('Reference: %1', exercise.id);
      this.openWide(exercise.id, title, html);
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
        this.model.showHints(exercise.id, null);
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

  /** The chapter of an exercise. */
  chapterOf(id: string): Chapter | undefined {
    return this.model.state?.chapters.find(entry => entry.exercises.some(exercise => exercise.id === id));
  }
}
