/** The panel of the course: chapters, and the exercises of the one in front. */
import { ReactWidget } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import * as React from 'react';

import { Actions } from './actions';
import { Chapter, Exercise, Outcome, State } from './api';
import { ExerciseItem } from './exercise';
import { courseIcon } from './icon';
import { isOutdated } from './version';
import { lookOfChapter, minutesOf, numberOf } from './words';

/** Renders again at each change of the model. */
export function useModel({ model }: Actions): void {
  const [, again] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    model.changed.connect(again);
    return () => void model.changed.disconnect(again);
  }, [model]);
}

/** What is wrong with the connection or the course, and what to do. */
export function Notices({ actions }: { actions: Actions }): React.ReactElement {
  const { model, trans } = actions;
  const { state, connection } = model;
  const problem = model.problems.get('');
  const newest = state?.chapters.filter(entry => entry.copy === 'newer') ?? [];
  const lines: React.ReactNode[] = [];
  if (connection === 'absent') {
    lines.push(
      <>
        {trans.__('This JupyterLab has no course on its server. In the folder of the course, run')} <code>make lab</code>
        {trans.__(', and open the address that it prints.')}
      </>
    );
  } else if (connection === 'refused') {
    lines.push(trans.__('The server no longer accepts this page. Open the address that it printed when it started.'));
  } else if (connection === 'lost') {
    lines.push(
      trans.__('Connection lost. Your files are safe. Retrying …')
    );
  }
  if (state && isOutdated(state)) {
    lines.push(
      <>
        {trans.__('The course was updated. Reload this page to use the new version.')}{' '}
        <button className="oplab-Button" onClick={() => window.location.reload()}>
          {trans.__('Reload this page')}
        </button>
      </>
    );
  }
  if (state && !state.inside) {
    lines.push(
      trans.__('The course is not in the folder that this JupyterLab shows, so lessons and exercises cannot be opened from here.')
    );
  }
  if (state?.grader.state === 'starting') {
    lines.push(trans.__('The grader is starting. Checks wait until it is ready.'));
  }
  if (state?.grader.state === 'failed') {
    lines.push(state.grader.message || trans.__('The grader did not start.'));
  }
  if (state && !state.writable && !state.problems.length) {
    lines.push(trans.__('The course’s folder is read-only: answers and progress cannot be saved.'));
  }
  lines.push(...(state?.problems ?? []));
  for (const chapter of newest) {
    lines.push(
      <>
        {trans.__('Lesson %1 has been updated; you have edited your copy.', numberOf(chapter))}{' '}
        <button className="oplab-Button" onClick={() => void actions.resetLesson(chapter)}>
          {trans.__('Take the new lesson')}
        </button>
      </>
    );
  }
  if (problem) {
    lines.push(`${problem.message} ${problem.fix}`);
  }
  return (
    <div className="oplab-Notices" role="status">
      {lines.map((line, index) => (
        <p key={index} className="oplab-Notice">
          {line}
        </p>
      ))}
    </div>
  );
}

/** The button that resumes where the learner left off. */
export function Continue({ actions }: { actions: Actions }): React.ReactElement | null {
  const { model, trans } = actions;
  const next = model.exercise(model.chapter?.next ?? '');
  if (!next) {
    return model.state && model.state.passed === model.state.total ? (
      <p className="oplab-Quiet">{trans.__('Every exercise has passed.')}</p>
    ) : null;
  }
  const begins = actions.unread(next);
  return (
    <button className="oplab-Button oplab-mod-main oplab-Continue" disabled={!next.file} onClick={() => void actions.resume(next)}>
      {begins
        ? trans.__('Start: lesson %1, %2 minutes', numberOf(begins), begins.minutes)
        : trans.__('Continue: %1, %2 minutes', next.id, next.minutes)}
    </button>
  );
}

/** The calm line of points. */
export function pointsLine(state: State, trans: Actions['trans']): string {
  return trans.__('%1 of %2 exercises, %3 of %4 points', state.passed, state.total, state.points, state.max_points);
}

function Exercises({ chapter, actions }: { chapter: Chapter; actions: Actions }): React.ReactElement {
  const { model, trans } = actions;
  // What the learner opened or closed; the rest follows the document in front.
  const [chosen, setChosen] = React.useState(new Map<string, boolean>());
  const here = model.exercisesOf(model.path);
  const leading = here.length === 1 && here[0] ? here[0].id : chapter.next;

  React.useEffect(() => {
    // A save may grade several: those that need work open, and the one that was worked on stays open.
    const show = (_: unknown, { id, status }: Outcome) => {
      if ((status !== 'passed' && status !== 'todo') || id === leading) {
        setChosen(old => new Map(old).set(id, old.get(id) ?? true));
      }
    };
    model.graded.connect(show);
    return () => void model.graded.disconnect(show);
  }, [model, leading]);

  const list = (exercises: Exercise[]) => (
    <ul className="oplab-Exercises">
      {exercises.map(exercise => (
        <ExerciseItem
          key={exercise.id}
          exercise={exercise}
          actions={actions}
          open={chosen.get(exercise.id) ?? exercise.id === leading}
          onToggle={open => setChosen(old => new Map(old).set(exercise.id, open))}
        />
      ))}
    </ul>
  );
  // after the exercise has scrolled itself into view
  const done = React.useRef<HTMLParagraphElement>(null);
  React.useEffect(() => {
    done.current?.scrollIntoView({ block: 'nearest' });
  }, [chapter.core_done]);
  const core = chapter.exercises.filter(exercise => !exercise.deeper);
  const deeper = chapter.exercises.filter(exercise => exercise.deeper);
  return (
    <>
      {core.length > 0 && list(core)}
      {chapter.core_done && (
        <p className="oplab-Done oplab-mod-good" role="status" ref={done}>
          {trans.__('Chapter %1 is done.', numberOf(chapter))} {chapter.able}
        </p>
      )}
      {deeper.length > 0 && (
        <>
          {core.length > 0 && <h4 className="oplab-Deeper">{trans.__('Deeper')}</h4>}
          {list(deeper)}
        </>
      )}
    </>
  );
}

interface ChapterProps {
  chapter: Chapter;
  actions: Actions;
  current: boolean;
  open: boolean;
  onToggle: (open: boolean) => void;
}

function ChapterItem({ chapter, actions, current, open, onToggle }: ChapterProps): React.ReactElement {
  const { trans } = actions;
  const look = lookOfChapter(chapter, trans);
  const body = `oplab-chapter-${chapter.id}`;
  const header = React.useRef<HTMLButtonElement>(null);
  const onKeyDown = (event: React.KeyboardEvent) => {
    if (event.key === 'Escape' && open) {
      onToggle(false);
      header.current?.focus();
      event.stopPropagation();
    }
  };
  return (
    <li
      className={current ? 'oplab-Chapter oplab-mod-current' : 'oplab-Chapter'}
      data-chapter={chapter.id}
      onKeyDown={onKeyDown}
    >
      <h3>
        <button
          ref={header}
          className="oplab-ChapterHeader"
          aria-expanded={open}
          aria-controls={open ? body : undefined}
          aria-current={current ? 'true' : undefined}
          onClick={() => onToggle(!open)}
        >
          <span className={`oplab-Symbol oplab-mod-${look.tone}`} aria-hidden="true">
            {look.symbol}
          </span>
          <span className="oplab-Number">{numberOf(chapter)}</span>
          <span className="oplab-Name">{chapter.title}</span>
          <span className="oplab-hidden">{look.word}</span>
          <span className="oplab-Points">
            <span aria-hidden="true">
              {chapter.passed}/{chapter.exercises.length}
            </span>
            <span className="oplab-hidden">{trans.__('%1 of %2 exercises', chapter.passed, chapter.exercises.length)}</span>
          </span>
        </button>
      </h3>
      {open && (
        <div className="oplab-ChapterBody" id={body}>
          <p className="oplab-ChapterFacts">
            <button className="oplab-Link" disabled={!chapter.lesson} onClick={() => void actions.openLesson(chapter)}>
              {trans.__('Open the lesson')}
            </button>
            <span className="oplab-Quiet">
              {minutesOf(chapter, trans)} · {trans.__('%1/%2 points', chapter.reached, chapter.points)}
            </span>
          </p>
          <Exercises chapter={chapter} actions={actions} />
        </div>
      )}
    </li>
  );
}

const HEARD = 10; // announcements that stay in the page: more than come at the same moment

/** What is checked and how it ended, for screen readers: each once, also where several come at the same moment. */
function Announcer({ actions }: { actions: Actions }): React.ReactElement {
  const { model, trans } = actions;
  const [heard, setHeard] = React.useState<{ key: number; text: string }[]>([]);
  const say = (text: string) =>
    setHeard(before => [...before, { key: (before[before.length - 1]?.key ?? 0) + 1, text }].slice(-HEARD));
  const running = model.state?.running.map(entry => model.exercise(entry.id)?.name ?? entry.id).join(', ') ?? '';
  React.useEffect(() => {
    if (running) {
      say(trans.__('Checking %1.', running));
    }
  }, [running]);
  React.useEffect(() => {
    const tell = (_: unknown, outcome: Outcome) => {
      const name = model.exercise(outcome.id)?.name ?? outcome.id;
      const first = outcome.status === 'passed' ? '' : (outcome.message.split('\n')[0] ?? '');
      say(
        `${name}: ${outcome.state}, ${trans.__('%1 of %2 points', outcome.points, outcome.max_points)}. ${first}`
      );
    };
    model.graded.connect(tell);
    return () => void model.graded.disconnect(tell);
  }, [model]);
  return (
    <div className="oplab-hidden oplab-Announcer" role="log" aria-live="polite">
      {heard.map(({ key, text }) => (
        <p key={key}>{text}</p>
      ))}
    </div>
  );
}

function Panel({ actions }: { actions: Actions }): React.ReactElement {
  useModel(actions);
  const { model, trans } = actions;
  const { state } = model;
  const current = model.chapter?.stem ?? '';
  const [chosen, setChosen] = React.useState(new Map<string, boolean>());
  const list = React.useRef<HTMLUListElement>(null);
  React.useEffect(() => {
    // Another lesson is in front: it opens, and what was opened by hand for the last one closes.
    setChosen(new Map());
    const node = list.current?.querySelector('.oplab-mod-current');
    node?.scrollIntoView({ block: 'nearest' });
  }, [current]);

  return (
    <div className="oplab-PanelContent">
      <header className="oplab-PanelHeader">
        <h2>
          <button className="oplab-Title" onClick={actions.openStart} title={trans.__('Open the start page')}>
            <courseIcon.react tag="span" className="oplab-TitleIcon" />
            {state?.title ?? trans.__('Operator Lab')}
          </button>
        </h2>
        {state && (
          <>
            <p className="oplab-Quiet">{pointsLine(state, trans)}</p>
            <progress
              className="oplab-Progress"
              max={state.max_points || 1}
              value={state.points}
              aria-label={trans.__('Points')}
            />
            <Continue actions={actions} />
            <label className="oplab-Switch">
              <input
                type="checkbox"
                checked={state.check_on_save}
                disabled={model.connection !== 'connected'}
                onChange={event => void actions.setCheckOnSave(event.target.checked)}
              />
              {trans.__('Check on save')}
            </label>
          </>
        )}
      </header>
      <Notices actions={actions} />
      {state ? (
        <ul className="oplab-Chapters" ref={list}>
          {state.chapters.map(chapter => (
            <ChapterItem
              key={chapter.stem}
              chapter={chapter}
              actions={actions}
              current={chapter.stem === current}
              open={chosen.get(chapter.stem) ?? chapter.stem === current}
              onToggle={open => setChosen(old => new Map(old).set(chapter.stem, open))}
            />
          ))}
        </ul>
      ) : (
        model.connection === 'connecting' && <p className="oplab-Quiet oplab-Waiting">{trans.__('Loading the course …')}</p>
      )}
      <Announcer actions={actions} />
    </div>
  );
}

/** The panel in JupyterLab's left side bar. */
export class CoursePanel extends ReactWidget {
  constructor(private readonly _actions: Actions) {
    super();
    const { trans } = _actions;
    this.id = 'oplab-panel';
    this.title.icon = courseIcon;
    this.title.caption = trans.__('Operator Lab');
    this.addClass('oplab-Panel');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('Operator Lab'));
  }

  render(): React.ReactElement {
    return <Panel actions={this._actions} />;
  }

  /** Shows an exercise, and puts the focus on it. */
  reveal(id: string): void {
    const { model } = this._actions;
    const chapter = model.state?.chapters.find(entry => entry.exercises.some(exercise => exercise.id === id));
    if (chapter) {
      model.enter(chapter.stem);
      requestAnimationFrame(() => {
        const item = this.node.querySelector<HTMLElement>(`[data-exercise="${CSS.escape(id)}"]`);
        const header = item?.querySelector<HTMLElement>('.oplab-ExerciseHeader');
        if (header?.getAttribute('aria-expanded') === 'false') {
          header.click();
        }
        item?.scrollIntoView({ block: 'nearest' });
        header?.focus({ preventScroll: true });
      });
    }
  }

  protected onActivateRequest(_: Message): void {
    const target = this.node.querySelector<HTMLElement>('.oplab-mod-current .oplab-ChapterHeader, .oplab-Title');
    (target ?? this.node).focus();
  }
}
