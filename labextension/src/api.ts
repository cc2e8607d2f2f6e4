/** The server's side of the course: what it sends, and how it is asked. `oplab/jupyter` implements it. */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

export type Status =
  | 'passed'
  | 'failed'
  | 'todo'
  | 'error'
  | 'timeout'
  | 'crashed'
  | 'build_failed'
  | 'grader_error';

export interface Exercise {
  id: string;
  name: string;
  goal: string;
  points: number;
  reached: number;
  difficulty: number;
  minutes: number;
  deeper: boolean;
  kind: string;
  /** Relative to Jupyter's root; null where the course is outside of it. */
  file: string | null;
  line: number;
  status: Status;
  /** How its progress is shown, the same as in the terminal. */
  sign: string;
  state: string;
  passed_once: boolean;
  /** Whether the reference may be read; `half`: after a question, and the exercise counts half then. */
  reference: 'open' | 'half' | 'closed';
  /** When its file was written, in seconds since 1970; 0 where there is none. */
  written: number;
  hints_shown: number;
  hints_total: number;
  /** The first line of what the last check reported, or ''. */
  headline: string;
}

export interface Chapter {
  stem: string;
  id: string;
  title: string;
  minutes: number;
  deeper_minutes: number;
  appendix: boolean;
  builds_on: string[];
  able: string;
  lesson: string | null;
  copy: 'same' | 'changed' | 'newer' | 'missing';
  points: number;
  reached: number;
  passed: number;
  /** The next exercise for who has this chapter open. */
  next: string | null;
  core_done: boolean;
  exercises: Exercise[];
}

export interface CourseMap {
  width: number;
  height: number;
  /** x and y are the upper left corner of a box. */
  nodes: { id: string; x: number; y: number; width: number; height: number }[];
  edges: { from: string; to: string; points: [number, number][] }[];
}

export interface State {
  version: number;
  extension: string;
  /** The file that a page which is loaded now starts this extension from. */
  build: string;
  title: string;
  language: string;
  /** Their names in themselves. */
  languages: Record<string, string>;
  inside: boolean;
  writable: boolean;
  check_on_save: boolean;
  grader: { state: 'off' | 'starting' | 'ready' | 'failed'; message: string };
  running: { id: string; since: number }[];
  queued: string[];
  points: number;
  max_points: number;
  passed: number;
  total: number;
  next: string | null;
  map: CourseMap;
  chapters: Chapter[];
  problems: string[];
}

export interface Place {
  file: string | null;
  line: number;
  message: string;
}

export interface Outcome {
  id: string;
  chapter: string;
  status: Status;
  state: string;
  points: number;
  max_points: number;
  seconds: number;
  message: string;
  checks: { name: string; passed: boolean; message: string }[];
  /** Seconds since 1970, on the server's clock. */
  when: number;
  /** Whether the answer's file is newer. */
  stale: boolean;
  html: string;
  places: Place[];
  graphs: { name: string; svg: string }[];
}

export interface Hints {
  id: string;
  hints: string[];
  total: number;
  html: string;
}

/** A question of a chapter's quiz; text in backticks is code. */
export interface Question {
  text: string;
  choices: { text: string; why: string; right: boolean }[];
}

/** What the events of the server are. */
export type Event = { type: 'state'; state: State } | { type: 'outcome'; outcome: Outcome };

/** An answer of the server that is an error: a sentence for the learner, and what to do. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly fix: string = ''
  ) {
    super(message);
  }
}

/** The addresses below `oplab/lab/`, with the server's own prefix and token. */
export class Api {
  constructor(readonly settings: ServerConnection.ISettings) {}

  state(): Promise<State> {
    return this._ask('state');
  }

  outcome(id: string): Promise<Outcome> {
    return this._ask(`outcome?id=${encodeURIComponent(id)}`);
  }

  check(ids: string[]): Promise<{ queued: string[] }> {
    return this._ask('check', { ids });
  }

  cancel(): Promise<unknown> {
    return this._ask('cancel', {});
  }

  /** The user has saved the document of this path, or with '' all documents. */
  saved(path: string): Promise<unknown> {
    return this._ask('saved', { path });
  }

  hint(id: string): Promise<Hints> {
    return this._ask('hint', { id });
  }

  difference(id: string): Promise<{ html: string }> {
    return this._ask(`difference?id=${encodeURIComponent(id)}`);
  }

  reference(id: string): Promise<{ html: string }> {
    return this._ask(`reference?id=${encodeURIComponent(id)}`);
  }

  /** Opens the reference before a pass. */
  show(id: string): Promise<unknown> {
    return this._ask('show', { id });
  }

  /** What to ask who wants to begin with a chapter. */
  questions(id: string): Promise<{ questions: Question[] }> {
    return this._ask(`questions?id=${encodeURIComponent(id)}`);
  }

  /** Has the way through the course begin with a chapter. */
  language(name: string): Promise<unknown> {
    return this._ask('language', { name });
  }

  begin(id: string): Promise<unknown> {
    return this._ask('begin', { id });
  }

  reset(id: string): Promise<{ file: string; backup: string | null }> {
    return this._ask('reset', { id });
  }

  configure(settings: { check_on_save: boolean }): Promise<unknown> {
    return this._ask('settings', settings);
  }

  /** The socket that the events come from. */
  events(): WebSocket {
    const { settings } = this;
    const token = settings.appendToken && settings.token ? `?token=${encodeURIComponent(settings.token)}` : '';
    return new settings.WebSocket(URLExt.join(settings.wsUrl, 'oplab/lab/events') + token);
  }

  private async _ask<T>(path: string, body?: object): Promise<T> {
    const { settings } = this;
    const [name, query] = path.split('?');
    const url = URLExt.join(settings.baseUrl, 'oplab/lab', name) + (query ? `?${query}` : '');
    const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
    const response = await ServerConnection.makeRequest(url, init, settings);
    let answer: any = null;
    try {
      answer = await response.json();
    } catch {
      // not JSON: the answer of a proxy, or of a server without the extension
    }
    if (!response.ok) {
      throw new ApiError(response.status, String(answer?.message ?? response.statusText), String(answer?.fix ?? ''));
    }
    return answer as T;
  }
}
