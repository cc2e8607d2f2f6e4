/** The start page: what is next, the map of the chapters, and what one can do by now. */
import { MainAreaWidget } from '@jupyterlab/apputils';
import { Contents } from '@jupyterlab/services';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import * as React from 'react';

import { Actions } from './actions';
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

function Start({ actions, contents }: { actions: Actions; contents: Contents.IManager }): React.ReactElement {
  useModel(actions);
  const { model, trans } = actions;
  const { state } = model;
  const able = state?.chapters.filter(chapter => chapter.core_done && chapter.able) ?? [];
  return (
    <main className="oplab-StartContent">
      <header>
        <h1>{state?.title ?? trans.__('Operator Lab')}</h1>
        {state && (
          <>
            <p className="oplab-Quiet">{pointsLine(state, trans)}</p>
            <p className="oplab-StartButtons">
              <Continue actions={actions} />
              <Report actions={actions} contents={contents} />
            </p>
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
