/** What this page knows of the course. It follows the server's events, and outlives a restart of the server. */
import { ServerConnection } from '@jupyterlab/services';
import { PromiseDelegate } from '@lumino/coreutils';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { Api, ApiError, Chapter, Event, Exercise, Outcome, State } from './api';

/**
 * - `connecting`: nothing came yet;
 * - `connected`: the events come;
 * - `lost`: they came, and the server does not answer now;
 * - `absent`: this server has no course;
 * - `refused`: the server does not accept this page's token.
 */
export type Connection = 'connecting' | 'connected' | 'lost' | 'absent' | 'refused';

/** What went wrong with a request, in the words of the server. */
export interface Problem {
  message: string;
  fix: string;
}

const SHORTEST_WAIT = 500;
const LONGEST_WAIT = 5_000;

export class CourseModel implements IDisposable {
  constructor(readonly api: Api) {
    window.addEventListener('online', this._again);
    document.addEventListener('visibilitychange', this._again);
  }

  /** Emitted at each change of anything below. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Emitted with the outcome of each grading that ends while this page is open. */
  get graded(): ISignal<this, Outcome> {
    return this._graded;
  }

  /** Emitted when an exercise's outcome is another one, came, or became stale: its id. */
  get outcomeChanged(): ISignal<this, string> {
    return this._outcomeChanged;
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  /** Resolved when the server has answered for the first time, however it answered. */
  get ready(): Promise<void> {
    return this._ready.promise;
  }

  state: State | null = null;
  connection: Connection = 'connecting';
  readonly outcomes = new Map<string, Outcome>();
  /** The hints that are open: their cards by exercise. */
  readonly hints = new Map<string, string>();
  /** What went wrong with a button: by exercise, or '' for the course. */
  readonly problems = new Map<string, Problem>();
  /** The path of the document that is in front, relative to Jupyter's root. */
  path = '';

  /** The chapter that the learner is in: the one of the document in front, else the one of the last, else of the next exercise. */
  get chapter(): Chapter | null {
    const { state } = this;
    if (!state) {
      return null;
    }
    const next = state.chapters.find(entry => entry.exercises.some(exercise => exercise.id === state.next));
    return state.chapters.find(entry => entry.stem === this._stem) ?? next ?? state.chapters[0] ?? null;
  }

  /** Where the course's folder is, relative to Jupyter's root: '' or with a slash at its end; null where it is outside. */
  get folder(): string | null {
    const lesson = this.state?.chapters.find(entry => entry.lesson)?.lesson;
    return lesson ? lesson.split('/').slice(0, -2).map(part => `${part}/`).join('') : null;
  }

  exercise(id: string): Exercise | undefined {
    return this.state?.chapters.flatMap(entry => entry.exercises).find(entry => entry.id === id);
  }

  /** The exercises that are answered in a file. */
  exercisesOf(path: string): Exercise[] {
    return this.state?.chapters.flatMap(entry => entry.exercises).filter(entry => entry.file === path) ?? [];
  }

  /** When grading an exercise began, in ms on this page's clock, or null when it is not being graded. */
  runningSince(id: string): number | null {
    return this._since.get(id) ?? null;
  }

  isQueued(id: string): boolean {
    return Boolean(this.state?.queued.includes(id)) && !this._since.has(id);
  }

  /** Tells the model which document is in front. */
  follow(path: string): void {
    this.path = path;
    const stem = this._stemOf(path);
    if (stem) {
      this._stem = stem;
    }
    this._changed.emit();
  }

  /** Goes to a chapter without a document. */
  enter(stem: string): void {
    this._stem = stem;
    this._changed.emit();
  }

  /** Connects, and stays connected until this is disposed. */
  async connect(): Promise<void> {
    if (this._disposed || this._socket || this._connecting) {
      return;
    }
    this._connecting = true;
    window.clearTimeout(this._timer);
    try {
      // A refused socket does not say why; a refused request does.
      this._take(await this.api.state());
      this._listen();
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) {
        this.connection = 'absent';
      } else if (error instanceof ApiError && (error.status === 401 || error.status === 403)) {
        this.connection = 'refused';
      } else {
        this.connection = 'lost';
      }
      this._later();
      this._changed.emit();
    } finally {
      this._connecting = false;
      this._ready.resolve();
    }
  }

  /** Whether saving grades; told to the server now, and each time that it comes back. */
  async configure(checkOnSave: boolean): Promise<void> {
    this._checkOnSave = checkOnSave;
    if (this.connection === 'connected' && this.state?.check_on_save !== checkOnSave) {
      await this.attempt('', () => this.api.configure({ check_on_save: checkOnSave }));
    }
  }

  /** What the last check reported, where an exercise was ever graded. */
  async load(id: string): Promise<void> {
    if (this.outcomes.has(id) || this._asked.has(id) || !this.exercise(id)) {
      return;
    }
    this._asked.add(id);
    try {
      this._keep(await this.api.outcome(id));
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404)) {
        this._asked.delete(id);
      }
    }
  }

  /** Asks again for what a file's outcomes say of it, where the file is newer than they are: only the server knows what changed in it. */
  touched(path: string, seconds: number): void {
    for (const { id } of this.exercisesOf(path)) {
      const outcome = this.outcomes.get(id);
      if (outcome && !outcome.stale && seconds > outcome.when) {
        void this._reload(id);
      }
    }
  }

  /** Runs what a button asks for; what goes wrong becomes a sentence below it. */
  async attempt<T>(id: string, action: () => Promise<T>): Promise<T | null> {
    this.problems.delete(id);
    try {
      return await action();
    } catch (error) {
      this.problems.set(id, {
        message: error instanceof Error ? error.message : String(error),
        fix: error instanceof ApiError ? error.fix : ''
      });
      if (error instanceof ServerConnection.NetworkError) {
        this._lose();
      }
      return null;
    } finally {
      this._changed.emit();
    }
  }

  /** Shows hints below an exercise, or none. */
  showHints(id: string, html: string | null): void {
    if (html === null) {
      this.hints.delete(id);
    } else {
      this.hints.set(id, html);
    }
    this._changed.emit();
  }

  dispose(): void {
    this._disposed = true;
    window.clearTimeout(this._timer);
    window.removeEventListener('online', this._again);
    document.removeEventListener('visibilitychange', this._again);
    this._socket?.close();
    Signal.clearData(this);
  }

  private _stemOf(path: string): string | null {
    const { state, folder } = this;
    if (!state || folder === null || !path) {
      return null;
    }
    const found = state.chapters.find(
      entry =>
        entry.lesson === path ||
        path === `${folder}notebooks/${entry.stem}.ipynb` ||
        entry.exercises.some(exercise => exercise.file === path)
    );
    return found?.stem ?? null;
  }

  private _listen(): void {
    const socket = this.api.events();
    this._socket = socket;
    socket.onopen = () => {
      this._wait = SHORTEST_WAIT;
      this.connection = 'connected';
      if (this._checkOnSave !== null) {
        void this.configure(this._checkOnSave);
      }
      this._changed.emit();
    };
    socket.onmessage = message => {
      const event = JSON.parse(message.data) as Event;
      if (event.type === 'state') {
        this._take(event.state);
      } else if (event.type === 'outcome') {
        this._keep(event.outcome);
        this._graded.emit(event.outcome);
      }
    };
    socket.onclose = () => {
      if (this._socket === socket) {
        this._lose();
      }
    };
  }

  private _take(state: State): void {
    const first = this.state === null;
    const before = new Map(this.state?.chapters.flatMap(entry => entry.exercises).map(entry => [entry.id, entry]));
    this.state = state;
    const running = new Set(state.running.map(entry => entry.id));
    for (const { id, since } of state.running) {
      if (!this._since.has(id)) {
        // The server's clock may be another machine's: its time is used only where it is plausible.
        const age = Date.now() - since * 1000;
        this._since.set(id, age >= 0 && age < 600_000 ? since * 1000 : Date.now());
      }
    }
    for (const id of [...this._since.keys()].filter(id => !running.has(id))) {
      this._since.delete(id);
    }
    if (first) {
      // The chapter stays when its last exercise passes: what the learner looks at does not close.
      this._stem = this._stemOf(this.path) ?? this.chapter?.stem ?? '';
    }
    // It was graded elsewhere: in a terminal, a notebook or another tab.
    for (const id of this._asked) {
      const [old, now] = [before.get(id), this.exercise(id)];
      if (old && now && (old.status !== now.status || old.reached !== now.reached || old.headline !== now.headline)) {
        void this._reload(id);
      }
    }
    this._changed.emit();
  }

  /** Asks for an outcome that is another one by now; until it comes, the old one is shown. */
  private async _reload(id: string): Promise<void> {
    try {
      this._keep(await this.api.outcome(id));
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) {
        // a reset took it back
        this.outcomes.delete(id);
        this._outcomeChanged.emit(id);
        this._changed.emit();
      }
    }
  }

  private _keep(outcome: Outcome): void {
    this._asked.add(outcome.id);
    this.outcomes.set(outcome.id, outcome);
    this.problems.delete(outcome.id);
    this._outcomeChanged.emit(outcome.id);
    this._changed.emit();
  }

  private _lose(): void {
    const socket = this._socket;
    this._socket = null;
    if (socket) {
      socket.onclose = null;
      socket.close();
    }
    this.connection = 'lost';
    this._since.clear();
    this._later();
    this._changed.emit();
  }

  private _later(): void {
    window.clearTimeout(this._timer);
    // a random part: the tabs of a class do not all come back in the same moment
    this._timer = window.setTimeout(() => void this.connect(), this._wait * (0.75 + Math.random() / 2));
    this._wait = Math.min(this._wait * 2, LONGEST_WAIT);
  }

  private readonly _again = () => {
    if (!document.hidden && (this.connection === 'lost' || this.connection === 'refused')) {
      this._wait = SHORTEST_WAIT;
      void this.connect();
    }
  };

  private readonly _ready = new PromiseDelegate<void>();
  private _stem = '';
  private _checkOnSave: boolean | null = null;
  private _socket: WebSocket | null = null;
  private _connecting = false;
  private _disposed = false;
  private _timer = 0;
  private _wait = SHORTEST_WAIT;
  private readonly _asked = new Set<string>();
  private readonly _since = new Map<string, number>();
  private readonly _changed = new Signal<this, void>(this);
  private readonly _graded = new Signal<this, Outcome>(this);
  private readonly _outcomeChanged = new Signal<this, string>(this);
}
