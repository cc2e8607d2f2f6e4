/** How states are named and drawn: a symbol, a word and a tone. */
import { TranslationBundle } from '@jupyterlab/translation';

import { Chapter, Exercise } from './api';

export type Tone = 'good' | 'bad' | 'odd' | 'quiet';

export interface Look {
  symbol: string;
  word: string;
  tone: Tone;
}

/** How an exercise's state looks. */
export function lookOf({ sign, state, status, reached }: Exercise): Look {
  const tone = status === 'passed' ? 'good' : status === 'todo' ? 'quiet' : status === 'grader_error' || reached ? 'odd' : 'bad';
  return { symbol: sign, word: state, tone };
}

/** How far a chapter is: done counts its core alone, as the way through the course does. */
export function lookOfChapter(chapter: Chapter, trans: TranslationBundle): Look {
  if (chapter.core_done) {
    return { symbol: '✓', word: trans.__('done'), tone: 'good' };
  }
  if (chapter.passed > 0 || chapter.exercises.some(exercise => exercise.status !== 'todo')) {
    return { symbol: '◐', word: trans.__('started'), tone: 'odd' };
  }
  return { symbol: '○', word: trans.__('to do'), tone: 'quiet' };
}

/** `60 min`, or `60 min + 20 optional` with what goes deeper. */
export function minutesOf(chapter: Chapter, trans: TranslationBundle): string {
  return chapter.minutes && chapter.deeper_minutes
    ? trans.__('%1 min + %2 optional', chapter.minutes, chapter.deeper_minutes)
    : trans.__('%1 min', chapter.minutes || chapter.deeper_minutes);
}

/** The number before a chapter's title: `05` of `c05`. */
export function numberOf(chapter: { id: string }): string {
  return chapter.id.replace(/^c/, '');
}

/** The points of an exercise in words, for screen readers. */
export function pointsOf(exercise: Exercise, trans: TranslationBundle): string {
  return trans.__('%1 of %2 points', exercise.reached, exercise.points);
}
