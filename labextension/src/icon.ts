/** The course's icon: a graph of three nodes. */
import { LabIcon } from '@jupyterlab/ui-components';

export const courseIcon = new LabIcon({
  name: 'oplab-lab:course',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="none" stroke="#616161" stroke-width="2" stroke-linecap="round">
    <path d="M6.5 9v6M9 6.5h4.5a3 3 0 0 1 3 3V15"/>
    <circle cx="6.5" cy="6.5" r="2.5"/><circle cx="6.5" cy="17.5" r="2.5"/><circle cx="16.5" cy="17.5" r="2.5"/>
  </g>
</svg>`
});
