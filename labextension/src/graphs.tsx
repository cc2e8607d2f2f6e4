/** An outcome's graphs in their own tab, where they have room. */
import { MainAreaWidget } from '@jupyterlab/apputils';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { Actions } from './actions';
import { Graphs } from './exercise';
import { courseIcon } from './icon';
import { useModel } from './panel';

function Large({ id, actions }: { id: string; actions: Actions }): React.ReactElement {
  useModel(actions);
  const { model, trans } = actions;
  const outcome = model.outcomes.get(id);
  return (
    <main className="oplab-Large">
      <h1>{trans.__('Graphs of %1', id)}</h1>
      {outcome?.graphs?.length ? (
        <Graphs outcome={outcome} trans={trans} />
      ) : (
        <p className="oplab-Quiet">{trans.__('The last check compared no graphs.')}</p>
      )}
    </main>
  );
}

/** The tab with the graphs of an exercise's last outcome. */
export function graphsTab(id: string, actions: Actions): MainAreaWidget<ReactWidget> {
  const content = ReactWidget.create(<Large id={id} actions={actions} />);
  content.addClass('oplab-Start');
  const widget = new MainAreaWidget<ReactWidget>({ content });
  widget.id = `oplab-graphs-${id}`;
  widget.title.label = actions.trans.__('Graphs of %1', id);
  widget.title.icon = courseIcon;
  widget.title.closable = true;
  widget.toolbar.hide();
  return widget;
}
