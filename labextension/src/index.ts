/** Operator Lab in JupyterLab: the panel, the start page, the marks in the editor, and the links of the cards. */
import { ILabShell, ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { IEditorTracker } from '@jupyterlab/fileeditor';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { Actions } from './actions';
import { Api } from './api';
import { courseIcon } from './icon';
import { CourseModel } from './model';
import { followEditors } from './following';
import { Opener, SMALL } from './open';
import { CoursePanel } from './panel';
import { startPage } from './start';
import { netronTab, wideTab } from './wide';

const PLUGIN = 'oplab-lab:plugin';

namespace Command {
  export const panel = 'oplab:open-panel';
  export const start = 'oplab:open-start';
}

const plugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN,
  description: 'The panel and the start page of the course.',
  autoStart: true,
  // All optional: Notebook 7 has no side bars, and there this plugin does nothing.
  optional: [ILabShell, IDocumentManager, IEditorTracker, ISettingRegistry, ITranslator, ILayoutRestorer, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    shell: ILabShell | null,
    documents: IDocumentManager | null,
    editors: IEditorTracker | null,
    settings: ISettingRegistry | null,
    translator: ITranslator | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null
  ) => {
    if (!shell || !documents) {
      return;
    }
    const trans = (translator ?? nullTranslator).load('oplab-lab');
    const model = new CourseModel(new Api(app.serviceManager.serverSettings));
    const opener = new Opener(documents, shell);
    const pages = new WidgetTracker<MainAreaWidget>({ namespace: 'oplab-start' });

    let start: MainAreaWidget | null = null;
    const openStart = () => {
      if (!start || start.isDisposed) {
        start = startPage(actions, app.serviceManager.contents);
        void pages.add(start);
        shell.add(start, 'main');
      }
      shell.activateById(start.id);
    };
    const setCheckOnSave = async (value: boolean) => {
      if (settings) {
        // the setting's change tells the server
        await settings.set(PLUGIN, 'checkOnSave', value);
      } else {
        await model.configure(value);
      }
    };
    const openWide = (id: string, title: string, html?: string) => opener.wide(wideTab(id, title, actions, html));
    const actions = new Actions(model, opener, trans, setCheckOnSave, openStart, openWide);

    const panel = new CoursePanel(actions);
    shell.add(panel, 'left', { rank: 0, type: 'Operator Lab' });
    restorer?.add(panel, 'oplab-panel');

    app.commands.addCommand(Command.panel, {
      label: trans.__('Show the Course'),
      caption: trans.__('Chapters and exercises of Operator Lab'),
      icon: courseIcon,
      describedBy: { args: { type: 'object', properties: {} } },
      execute: () => shell.activateById(panel.id)
    });
    app.commands.addCommand(Command.start, {
      label: trans.__('Show the Start Page'),
      caption: trans.__('The map of the chapters, and what is next'),
      icon: courseIcon,
      describedBy: { args: { type: 'object', properties: {} } },
      execute: openStart
    });
    for (const command of [Command.panel, Command.start]) {
      palette?.addItem({ command, category: trans.__('Operator Lab') });
    }
    if (restorer) {
      void restorer.restore(pages, { command: Command.start, name: () => 'start' });
    }

    // The document in front.
    const follow = () => {
      const path = opener.path;
      if (path && path !== model.path) {
        model.follow(path);
      }
    };
    shell.currentPathChanged.connect(follow);
    shell.currentChanged.connect(follow);

    if (editors) {
      followEditors(editors, model, trans, mark => {
        shell.activateById(panel.id);
        panel.reveal(mark.id);
      });
    }

    // The links of the cards, here and in the outputs of notebooks: a capturing listener comes before Jupyter's own.
    document.addEventListener(
      'click',
      event => {
        const link = event.target instanceof Element ? event.target.closest<HTMLElement>('a.oplab-place[data-oplab-file]') : null;
        if (link && event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && model.folder !== null) {
          event.preventDefault();
          event.stopPropagation();
          void actions.openLink(link);
        }
      },
      true
    );

    // A graph of a notebook, whose own button asks for room.
    document.addEventListener('oplab-wide', event => {
      event.preventDefault();
      opener.wide(netronTab((event as CustomEvent<HTMLIFrameElement>).detail));
    });

    // What the user saves is graded; what JupyterLab saves by itself is not.
    app.commands.commandExecuted.connect((_, { id, result }) => {
      if (id === 'docmanager:save' || id === 'docmanager:save-all') {
        const path = id === 'docmanager:save' ? opener.path : '';
        void result.then(() => model.attempt('', () => model.api.saved(path)));
      }
    });

    void model.connect();
    if (settings) {
      void settings
        .load(PLUGIN)
        .then(loaded => {
          const tell = () => void model.configure(loaded.get('checkOnSave').composite !== false);
          loaded.changed.connect(tell);
          tell();
        })
        .catch(reason => console.warn('oplab-lab: the settings could not be read.', reason));
    }

    void Promise.all([shell.restored, app.restored]).then(async ([layout]) => {
      follow();
      if (layout.fresh && window.innerWidth >= SMALL) {
        // after the file browser, which shows itself in a new workspace
        requestAnimationFrame(() => shell.activateById(panel.id));
      }
      const idle = () => ![...shell.widgets('main')].some(widget => !widget.id.startsWith('launcher'));
      if (PageConfig.getOption('treePath') || !idle()) {
        return;
      }
      // The page is the course's: a JupyterLab of another folder keeps its launcher.
      await model.ready;
      if (model.state?.inside && idle()) {
        const launchers = [...shell.widgets('main')];
        openStart();
        launchers.forEach(widget => widget.dispose());
      }
    });
  }
};

export default plugin;
