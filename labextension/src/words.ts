/** How states are named and drawn: a symbol, a word and a tone, the same as in the terminal and in the cards. */
import { TranslationBundle } from '@jupyterlab/translation';

import { Chapter, Exercise, Status } from './api';

export type Tone = 'good' | 'bad' | 'odd' | 'quiet';

export interface Look {
  symbol: string;
  word: string;
  tone: Tone;
}

/** How an exercise's state looks. */
export function lookOf(status: Status, trans: TranslationBundle): Look {
  switch (status) {
    case 'passed':
      return { symbol: '✓', word: trans.__('passed'), tone: 'good' };
    case 'failed':
      return { symbol: '✗', word: trans.__('failed'), tone: 'bad' };
    case 'error':
      return { symbol: '✗', word: trans.__('error'), tone: 'bad' };
    case 'timeout':
      return { symbol: '✗', word: trans.__('timeout'), tone: 'bad' };
    case 'crashed':
      return { symbol: '✗', word: trans.__('crashed'), tone: 'bad' };
    case 'build_failed':
      return { symbol: '✗', word: trans.__('does not compile'), tone: 'bad' };
    case 'grader_error':
      return { symbol: '!', word: trans.__('grader error'), tone: 'odd' };
    default:
      return { symbol: '○', word: trans.__('to do'), tone: 'quiet' };
  }
}

/** How far a chapter is: done counts its core alone, as the way through the course does. */
export function lookOfChapter(chapter: Chapter, trans: TranslationBundle): Look {
  if (chapter.core_done) {
    return { symbol: '✓', word: trans.__('done'), tone: 'good' };
  }
  if (chapter.passed > 0 || chapter.exercises.some(exercise => exercise.status !== 'todo')) {
    return { symbol: '◐', word: trans.__('started'), tone: 'odd' };
  }
  return { symbol: '○', word: trans.__('open'), tone: 'quiet' };
}

/** `60 min`, or `60 + 20 min` with what goes deeper. */
export function minutesOf(chapter: Chapter, trans: TranslationBundle): string {
  return chapter.deeper_minutes
    ? trans.__('%1 + %2 min', chapter.minutes, chapter.deeper_minutes)
    : trans.__('%1 min', chapter.minutes);
}

/** The number before a chapter's title: `05` of `c05`. */
export function numberOf(chapter: { id: string }): string {
  return chapter.id.replace(/^c/, '');
}

/** The points of an exercise in words, for those who hear the page. */
export function pointsOf(exercise: Exercise, trans: TranslationBundle): string {
  return trans.__('%1 of %2 points', exercise.reached, exercise.points);
}
