/** What needs room, in a tab of its own: an outcome with its graphs, a difference, a reference, a graph in Netron. */
import { MainAreaWidget } from '@jupyterlab/apputils';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';
import * as React from 'react';

import { Actions } from './actions';
import { Card } from './card';
import { Graphs } from './exercise';
import { courseIcon } from './icon';
import { useModel } from './panel';

function Outcome({ id, actions }: { id: string; actions: Actions }): React.ReactElement | null {
  useModel(actions);
  const outcome = actions.model.outcomes.get(id);
  return outcome ? (
    <>
      <Card html={outcome.html} />
      <Graphs outcome={outcome} trans={actions.trans} />
    </>
  ) : null;
}

function tab<T extends Widget>(content: T, title: string): MainAreaWidget<T> {
  const widget = new MainAreaWidget<T>({ content });
  widget.id = `oplab-${title.replace(/\W+/g, '-')}`;
  widget.title.label = title;
  widget.title.icon = courseIcon;
  widget.title.closable = true;
  widget.toolbar.hide();
  return widget;
}

/** The tab of an exercise: with a card, or with its last outcome. */
export function wideTab(id: string, title: string, actions: Actions, html?: string): MainAreaWidget {
  const content = ReactWidget.create(
    <main className="oplab-Large">{html === undefined ? <Outcome id={id} actions={actions} /> : <Card html={html} />}</main>
  );
  content.addClass('oplab-Start');
  return tab(content, title);
}

/** The tab of a graph. */
export function netronTab(frame: HTMLIFrameElement): MainAreaWidget {
  return tab(new Widget({ node: frame }), frame.title);
}
