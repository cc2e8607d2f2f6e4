/** The start page: what is next, the map of the chapters, and what one can do by now. */
import { MainAreaWidget } from '@jupyterlab/apputils';
import { Contents } from '@jupyterlab/services';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import * as React from 'react';

import { Actions } from './actions';
import { Chapter, Question } from './api';
import { courseIcon } from './icon';
import { ChapterMap } from './map';
import { Continue, Notices, pointsLine, useModel } from './panel';
import { numberOf } from './words';

/** The newest report of the capstone, relative to Jupyter's root, or null. */
async function newestReport(contents: Contents.IManager, folder: string): Promise<string | null> {
  try {
    const found = await contents.get(`${folder}build/capstone`);
    const reports = (found.content as Contents.IModel[]).filter(entry => /^report-\d+$/.test(entry.name));
    const newest = reports.sort((one, other) => Number(other.name.slice(7)) - Number(one.name.slice(7)))[0];
    return newest ? `${newest.path}/report.html` : null;
  } catch {
    // there is none: the chapter's lesson says how to make one
    return null;
  }
}

function Report({ actions, contents }: { actions: Actions; contents: Contents.IManager }): React.ReactElement | null {
  const { model, trans } = actions;
  const { folder } = model;
  const done = Boolean(model.state?.chapters.find(entry => entry.id === 'c16')?.core_done);
  const [path, setPath] = React.useState<string | null>(null);
  React.useEffect(() => {
    if (done && folder !== null) {
      void newestReport(contents, folder).then(setPath);
    }
  }, [done, folder]);
  return done && path ? (
    <button className="oplab-Button" onClick={() => void model.attempt('', () => actions.opener.page(path))}>
      {trans.__('Open your capstone report')}
    </button>
  ) : null;
}

const SKIP = 'c04'; // where those begin who know what the chapters before it teach
const NEEDED = 2; // right answers

/** A text with its code. */
function Marked({ text }: { text: string }): React.ReactElement {
  return <span>{text.split('`').map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}</span>;
}

/** The way in for those who know ONNX: three questions, and a later chapter to begin with. */
function Skip({ actions, chapter }: { actions: Actions; chapter: Chapter }): React.ReactElement {
  const { model, trans } = actions;
  const [questions, setQuestions] = React.useState<Question[] | null>(null);
  const [chosen, setChosen] = React.useState<number[]>([]);
  const [checked, setChecked] = React.useState(false);
  const number = numberOf(chapter);
  const ask = () =>
    model.attempt('', async () => setQuestions(questions ? null : (await model.api.questions(chapter.id)).questions));
  const begin = () =>
    model.attempt('', async () => {
      await model.api.begin(chapter.id);
      await actions.openLesson(chapter);
    });
  const right = questions?.filter((question, index) => question.choices[chosen[index]!]?.right).length ?? 0;
  const ready = checked && right >= NEEDED;
  return (
    <>
      <button className="oplab-Button oplab-Begin" aria-expanded={questions !== null} onClick={() => void ask()}>
        {trans.__('I know ONNX: begin with %1', number)}
      </button>
      {questions && (
        <form
          className="oplab-Questions"
          onSubmit={event => {
            event.preventDefault();
            setChecked(true);
          }}
        >
          <p>{trans.__('%1 questions about the chapters before %2. With %3 right answers, skip these chapters.', questions.length, number, NEEDED)}</p>
          {questions.map((question, index) => (
            <fieldset key={index} disabled={checked}>
              <legend>
                <Marked text={question.text} />
              </legend>
              {question.choices.map((choice, place) => (
                <React.Fragment key={place}>
                  <label>
                    <input
                      type="radio"
                      name={`oplab-question-${index}`}
                      required
                      onChange={() => setChosen(Object.assign([...chosen], { [index]: place }))}
                    />
                    <Marked text={choice.text} />
                  </label>
                  {checked && chosen[index] === place && (
                    <p className={choice.right ? 'oplab-mod-good' : 'oplab-mod-bad'}>
                      {choice.right ? trans.__('✓ Right.') : trans.__('✗ Wrong.')} <Marked text={choice.why} />
                    </p>
                  )}
                </React.Fragment>
              ))}
            </fieldset>
          ))}
          <p role="status">{checked && trans.__('%1 of %2 right.', right, questions.length)}</p>
          <p className="oplab-StartButtons">
            {!checked && <button className="oplab-Button">{trans.__('Check my answers')}</button>}
            <button type="button" className={`oplab-Button ${ready ? 'oplab-mod-main' : ''}`} onClick={() => void begin()}>
              {ready ? trans.__('Begin with lesson %1', number) : trans.__('Begin with lesson %1 anyway', number)}
            </button>
          </p>
        </form>
      )}
    </>
  );
}

/** What the course asks for, and how long it takes. */
function Introduction({ chapters, trans }: { chapters: Chapter[]; trans: Actions['trans'] }): React.ReactElement {
  const core = chapters.reduce((sum, chapter) => sum + (chapter.appendix ? 0 : chapter.minutes), 0);
  const all = chapters.reduce((sum, chapter) => sum + chapter.minutes + chapter.deeper_minutes, 0);
  return (
    <p>
      {trans.__('Read a lesson, write its exercises, and save: each save is checked.')}{' '}
      {trans.__(
        'The course takes about %1 hours, and %2 more with its optional parts.',
        Math.round(core / 60),
        Math.round((all - core) / 60)
      )}
    </p>
  );
}

/** The language of everything: lessons, stubs, hints and JupyterLab itself. The page loads again, so what is open is saved first. */
function Language({ actions }: { actions: Actions }): React.ReactElement {
  const { model, trans } = actions;
  const change = (name: string) =>
    model.attempt('', async () => {
      await actions.opener.saveAll();
      await model.api.language(name);
      window.location.reload();
    });
  return (
    <label className="oplab-Language">
      <span lang="en">Language</span> {trans.__('Language') !== 'Language' && trans.__('Language')}{' '}
      <select value={model.state?.language} onChange={event => void change(event.target.value)}>
        {Object.entries(model.state?.languages ?? {}).map(([name, own]) => (
          <option key={name} value={name} lang={name.replace('_', '-')}>
            {own}
          </option>
        ))}
      </select>
    </label>
  );
}

function Start({ actions, contents }: { actions: Actions; contents: Contents.IManager }): React.ReactElement {
  useModel(actions);
  const { model, trans } = actions;
  const { state } = model;
  const atFirst = state?.chapters[0]?.exercises.some(entry => entry.id === state.next);
  const later = atFirst && state?.chapters.find(entry => entry.id === SKIP);
  const able = state?.chapters.filter(chapter => chapter.core_done && chapter.able) ?? [];
  return (
    <main className="oplab-StartContent">
      <header>
        <h1>{state?.title ?? trans.__('Operator Lab')}</h1>
        {state && (
          <>
            <Language actions={actions} />
            <Introduction chapters={state.chapters} trans={trans} />
            <p className="oplab-Quiet">{pointsLine(state, trans)}</p>
            <div className="oplab-StartButtons">
              <Continue actions={actions} />
              <Report actions={actions} contents={contents} />
              {later && <Skip actions={actions} chapter={later} />}
            </div>
          </>
        )}
      </header>
      <Notices actions={actions} />
      {state ? (
        <ChapterMap map={state.map} chapters={state.chapters} current={model.chapter?.stem ?? ''} actions={actions} />
      ) : (
        model.connection === 'connecting' && <p className="oplab-Quiet">{trans.__('Loading the course …')}</p>
      )}
      {able.length > 0 && (
        <section className="oplab-Able">
          <h2>{trans.__('What you can do now')}</h2>
          <ul>
            {able.map(chapter => (
              <li key={chapter.id}>
                <span className="oplab-Number">{numberOf(chapter)}</span> {chapter.able}
              </li>
            ))}
          </ul>
        </section>
      )}
    </main>
  );
}

class StartContent extends ReactWidget {
  constructor(
    private readonly _actions: Actions,
    private readonly _contents: Contents.IManager
  ) {
    super();
    this.addClass('oplab-Start');
  }

  render(): React.ReactElement {
    return <Start actions={this._actions} contents={this._contents} />;
  }

  protected onActivateRequest(_: Message): void {
    this.node.querySelector<HTMLElement>('.oplab-Continue')?.focus();
  }
}

/** The start page as a tab of the main area. */
export function startPage(actions: Actions, contents: Contents.IManager): MainAreaWidget<ReactWidget> {
  const widget = new MainAreaWidget<ReactWidget>({ content: new StartContent(actions, contents) });
  widget.id = 'oplab-start';
  widget.title.label = actions.model.state?.title ?? actions.trans.__('Operator Lab');
  widget.title.icon = courseIcon;
  widget.title.closable = true;
  widget.toolbar.hide();
  return widget;
}
