/** Whether this page is older than the extension that is installed. */
import { PageConfig } from '@jupyterlab/coreutils';

import { State } from './api';

/** The version of the course that this page was built with: that of package.json. */
export const VERSION = '0.2.0';

/** The file that this page has started the extension from, or '' where JupyterLab does not tell. Its name has a digest. */
function ownBuild(): string {
  try {
    const found: { name: string; load: string }[] = JSON.parse(PageConfig.getOption('federated_extensions'));
    return found.find(entry => entry.name === 'oplab-lab')?.load ?? '';
  } catch {
    return '';
  }
}

export function isOutdated(state: State): boolean {
  const own = ownBuild();
  return own && state.build ? own !== state.build : state.extension !== VERSION;
}
