/** The server's cards in the page: only what a card consists of is let through. */
import * as React from 'react';

const ELEMENTS = new Set(
  `a b br code dd del details div dl dt em figure figcaption h3 h4 hr i ins li ol p pre small span strong style sub summary
  sup table tbody td th thead tr ul`.split(/\s+/)
);
const ATTRIBUTES = new Set(
  'aria-hidden aria-label class colspan data-oplab-file data-oplab-line href open role rowspan scope tabindex title'.split(' ')
);

/** Whether a style sheet asks for nothing from outside. JupyterLab's own sanitizer would take every sheet away. */
function isPlainSheet(text: string): boolean {
  return !/url\s*\(|@import|expression\s*\(|\\/i.test(text);
}

function copy(from: Node, to: Node): void {
  for (const node of from.childNodes) {
    if (node instanceof Text) {
      to.appendChild(document.createTextNode(node.data));
    } else if (node instanceof Element) {
      const name = node.localName;
      if (!ELEMENTS.has(name) || (name === 'style' && !isPlainSheet(node.textContent ?? ''))) {
        continue;
      }
      const element = document.createElement(name);
      for (const { name, value } of node.attributes) {
        // an address is one in this site: no scheme, no other host
        if (ATTRIBUTES.has(name) && !(name === 'href' && /^\s*([a-z][a-z0-9+.-]*:|[/\\]{2})/i.test(value))) {
          element.setAttribute(name, value);
        }
      }
      copy(node, element);
      to.appendChild(element);
    }
  }
}

/** A card as nodes. A parsed document runs no script and loads nothing; what is not on the lists above is left out. */
export function cardNodes(html: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  copy(new DOMParser().parseFromString(html, 'text/html').body, fragment);
  return fragment;
}

/** A card of the server. */
export function Card({ html }: { html: string }): React.ReactElement {
  const ref = React.useRef<HTMLDivElement>(null);
  React.useLayoutEffect(() => ref.current?.replaceChildren(cardNodes(html)), [html]);
  return <div className="oplab-Card" ref={ref} />;
}

/** A graph's address: as an image it neither runs a script nor asks for anything. */
export function graphAddress(svg: string): string {
  return `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
}
