/** One exercise in the panel: a line, and below it what one can do and what the last check reported. */
import * as React from 'react';

import { Actions } from './actions';
import { Exercise, Outcome } from './api';
import { Card, graphAddress } from './card';
import { lookOf, pointsOf } from './words';

/** Seconds since a moment, counted while it is shown. */
function Seconds({ since }: { since: number }): React.ReactElement {
  const [now, setNow] = React.useState(Date.now());
  React.useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), 1000);
    return () => window.clearInterval(timer);
  }, []);
  return <span className="oplab-Seconds">{Math.max(0, Math.floor((now - since) / 1000))} s</span>;
}

/** The graphs of an outcome, next to each other. */
export function Graphs({ outcome, onOpen, trans }: {
  outcome: Outcome;
  onOpen?: () => void;
  trans: Actions['trans'];
}): React.ReactElement | null {
  if (!outcome.graphs?.length) {
    return null;
  }
  return (
    <div className="oplab-Graphs">
      {outcome.graphs.map(({ name, svg }) => {
        const picture = <img src={graphAddress(svg)} alt={trans.__('Graph of %1', name)} />;
        return (
          <figure key={name}>
            {onOpen ? (
              <button className="oplab-Graph" onClick={onOpen} title={trans.__('Show the graphs larger')}>
                {picture}
              </button>
            ) : (
              picture
            )}
            <figcaption>{name}</figcaption>
          </figure>
        );
      })}
    </div>
  );
}

function Report({ exercise, actions }: { exercise: Exercise; actions: Actions }): React.ReactElement | null {
  const { model, trans } = actions;
  const outcome = model.outcomes.get(exercise.id);
  React.useEffect(() => {
    if (exercise.headline || exercise.status !== 'todo') {
      void model.load(exercise.id);
    }
  }, [exercise.headline, exercise.status]);
  if (!outcome || outcome.status === 'todo') {
    return null;
  }
  const open = () => actions.openWide(exercise.id, trans.__('Report: %1', exercise.id));
  return (
    <div className={outcome.stale ? 'oplab-Report oplab-mod-stale' : 'oplab-Report'}>
      {outcome.stale && <p className="oplab-Quiet">{trans.__('Before your last change:')}</p>}
      {outcome.status === 'passed' && outcome.checks?.length > 0 ? (
        <details className="oplab-Passed">
          <summary>{trans._n('%1 check passed', '%1 checks passed', outcome.checks.length, outcome.checks.length)}</summary>
          <Card html={outcome.html} />
        </details>
      ) : (
        <Card html={outcome.html} />
      )}
      <Graphs outcome={outcome} trans={trans} onOpen={open} />
      {outcome.status !== 'passed' && (
        <button className="oplab-Link" aria-label={`${trans.__('Open in a tab')}: ${exercise.name}`} onClick={open}>
          {trans.__('Open in a tab')}
        </button>
      )}
    </div>
  );
}

function Buttons({ exercise, actions }: { exercise: Exercise; actions: Actions }): React.ReactElement {
  const { model, trans } = actions;
  const since = model.runningSince(exercise.id);
  const busy = since !== null || model.isQueued(exercise.id);
  const away = model.connection !== 'connected';
  const left = exercise.hints_total - exercise.hints_shown;
  const passed = exercise.status === 'passed';
  const next = passed ? model.exercise(actions.chapterOf(exercise.id)?.next ?? '') : undefined;
  const named = (text: string) => `${text}: ${exercise.name}`;
  return (
    <div className="oplab-Buttons">
      {next && (
        <button className="oplab-Button oplab-mod-main" disabled={!next.file} onClick={() => void actions.open(next)}>
          {trans.__('Next: %1', next.id)}
        </button>
      )}
      <button
        className="oplab-Button"
        aria-label={named(trans.__('Open'))}
        title={trans.__('Opens %1 next to the lesson', exercise.file ?? '')}
        disabled={!exercise.file}
        onClick={() => void actions.open(exercise)}
      >
        {trans.__('Open')}
      </button>
      {busy ? (
        <button
          className="oplab-Button"
          key="check"
          aria-label={named(trans.__('Stop'))}
          onClick={() => void actions.stop(exercise.id)}
        >
          {trans.__('Stop')}
        </button>
      ) : (
        <button
          className={next ? 'oplab-Button' : 'oplab-Button oplab-mod-main'}
          key="check"
          aria-label={named(trans.__('Check'))}
          disabled={away}
          onClick={() => void actions.check(exercise)}
        >
          {trans.__('Check')}
        </button>
      )}
      {exercise.hints_total > 0 && (
        <button
          className="oplab-Button"
          aria-label={named(left > 0 ? trans.__('Hint %1 of %2', exercise.hints_shown + 1, exercise.hints_total) : trans.__('Hints'))}
          title={left > 0 ? trans.__('Shows hint %1 of %2', exercise.hints_shown + 1, exercise.hints_total) : trans.__('Shows the hints again')}
          disabled={away}
          onClick={() => void actions.hint(exercise)}
        >
          {left > 0 ? trans.__('Hint %1/%2', exercise.hints_shown + 1, exercise.hints_total) : trans.__('Hints')}
        </button>
      )}
      {exercise.reference !== 'closed' &&
        (exercise.reference === 'open' ? (['difference', 'reference'] as const) : (['reference'] as const)).map(kind => {
          const text = kind === 'difference' ? trans.__('Difference') : trans.__('Reference');
          return (
            <button
              key={kind}
              className="oplab-Button"
              aria-label={named(text)}
              disabled={away}
              onClick={() => void actions.compare(exercise, kind)}
            >
              {text}
            </button>
          );
        })}
      <button
        className="oplab-Button oplab-mod-quiet"
        aria-label={named(trans.__('Reset'))}
        title={trans.__('Restores the stub; your file is kept in build/backup/')}
        disabled={away || busy || !model.state?.writable}
        onClick={() => void actions.reset(exercise)}
      >
        {trans.__('Reset')}
      </button>
    </div>
  );
}

export interface ExerciseProps {
  exercise: Exercise;
  actions: Actions;
  open: boolean;
  onToggle: (open: boolean) => void;
}

/** One exercise: its line is a button that shows and hides the rest. */
export function ExerciseItem({ exercise, actions, open, onToggle }: ExerciseProps): React.ReactElement {
  const { model, trans } = actions;
  const since = model.runningSince(exercise.id);
  const queued = model.isQueued(exercise.id);
  const look = lookOf(exercise);
  const hints = model.hints.get(exercise.id);
  const problem = model.problems.get(exercise.id);
  const body = `oplab-exercise-${exercise.id}`;
  const header = React.useRef<HTMLButtonElement>(null);
  const state = since !== null ? trans.__('checking') : queued ? trans.__('waiting') : look.word;
  const tone = since !== null || queued ? 'quiet' : look.tone;

  const before = React.useRef(exercise.status);
  React.useEffect(() => {
    if (open && exercise.status === 'passed' && before.current !== 'passed') {
      model.showHints(exercise.id, null);
      header.current?.parentElement?.scrollIntoView({ block: 'nearest' });
    }
    before.current = exercise.status;
  }, [exercise.status]);

  const onKeyDown = (event: React.KeyboardEvent) => {
    if (event.key === 'Escape' && open) {
      // first what was opened last
      if (hints) {
        model.showHints(exercise.id, null);
      } else {
        onToggle(false);
        header.current?.focus();
      }
      event.stopPropagation();
    }
  };

  return (
    <li className="oplab-Exercise" data-exercise={exercise.id} data-status={exercise.status} onKeyDown={onKeyDown}>
      <button
        ref={header}
        className="oplab-ExerciseHeader"
        aria-expanded={open}
        aria-controls={open ? body : undefined}
        onClick={() => onToggle(!open)}
      >
        <span className={`oplab-Symbol oplab-mod-${tone}`} aria-hidden="true">
          {since !== null ? <span className="oplab-Spinner" /> : look.symbol}
        </span>
        <span className="oplab-Name">{exercise.name}</span>
        <span className={`oplab-State oplab-mod-${tone}`}>
          {state} {since !== null && <span aria-hidden="true"><Seconds since={since} /></span>}
        </span>
        <span className="oplab-Points" aria-hidden="true">
          {exercise.reached}/{exercise.points}
        </span>
        <span className="oplab-hidden">{pointsOf(exercise, trans)}</span>
      </button>
      {open && (
        <div className="oplab-ExerciseBody" id={body}>
          <p className="oplab-Goal">
            {exercise.goal}
            <span className="oplab-Quiet"> · {trans.__('%1 min', exercise.minutes)}</span>
          </p>
          <Buttons exercise={exercise} actions={actions} />
          {problem && (
            <p className="oplab-Problem" role="alert">
              {problem.message} {problem.fix}
            </p>
          )}
          {since === null && <Report exercise={exercise} actions={actions} />}
          {hints && (
            <div className="oplab-Extra">
              <Card html={hints} />
              <button className="oplab-Close" onClick={() => model.showHints(exercise.id, null)}>
                {trans.__('Close the hints')}
              </button>
            </div>
          )}
        </div>
      )}
    </li>
  );
}
