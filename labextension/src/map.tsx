/** The map of the chapters: which builds on which, and how far each is. */
import * as React from 'react';

import { Actions } from './actions';
import { Chapter, CourseMap } from './api';
import { lookOfChapter, minutesOf, numberOf } from './words';

/** The mean width of a letter of a title, in pixels. */
const LETTER = 6.4;

/** What a link of the map is called: everything that the picture shows, in words. */
function nameOf(chapter: Chapter, chapters: Chapter[], trans: Actions['trans']): string {
  const before = chapter.builds_on
    .map(id => chapters.find(entry => entry.id === id))
    .filter((entry): entry is Chapter => entry !== undefined)
    .map(numberOf)
    .join(', ');
  return [
    `${numberOf(chapter)} ${chapter.title}: ${lookOfChapter(chapter, trans).word}`,
    trans.__('%1 of %2 exercises', chapter.passed, chapter.exercises.length),
    before && trans.__('builds on %1', before)
  ]
    .filter(Boolean)
    .join(', ');
}

/** How many letters a text is as wide as: a Chinese character takes almost two. */
const size = (text: string): number => [...text].reduce((sum, letter) => sum + (letter >= '\u2e80' ? 1.8 : 1), 0);

/** A title on at most three lines of a box. */
export function wrap(title: string, most: number): string[] {
  const lines = [''];
  for (const piece of title.match(/ ?(?:[\u2e80-\uffef]|[^\s\u2e80-\uffef]+)/g) ?? []) {
    const line = lines[lines.length - 1]!;
    if (line && size(line + piece) > most) {
      lines.push(piece.trimStart());
    } else {
      lines[lines.length - 1] = line + piece;
    }
  }
  return lines.length > 3 ? [...lines.slice(0, 2), `${lines[2]} …`] : lines;
}

/** A smooth line through the points of an edge; the course's layout goes from left to right or from top to bottom. */
function curve(points: [number, number][]): string {
  const [first, ...rest] = points;
  if (!first) {
    return '';
  }
  const down = Math.abs(points[points.length - 1]![1] - first[1]) > Math.abs(points[points.length - 1]![0] - first[0]);
  let [x, y] = first;
  let path = `M${x} ${y}`;
  for (const [right, below] of rest) {
    path += down
      ? `C${x} ${(y + below) / 2} ${right} ${(y + below) / 2} ${right} ${below}`
      : `C${(x + right) / 2} ${y} ${(x + right) / 2} ${below} ${right} ${below}`;
    [x, y] = [right, below];
  }
  return path;
}

interface MapProps {
  map: CourseMap;
  chapters: Chapter[];
  current: string;
  actions: Actions;
}

function Picture({ map, chapters, current, actions }: MapProps): React.ReactElement {
  const { trans } = actions;
  // An edge is brighter while one of its chapters has the focus or the pointer.
  const [near, setNear] = React.useState('');
  return (
    <svg
      className="oplab-MapPicture"
      viewBox={`-2 -2 ${map.width + 4} ${map.height + 4}`}
      style={{ maxWidth: map.width + 4 }}
      role="group"
      aria-label={trans.__('Map of the chapters')}
    >
      <marker id="oplab-head" viewBox="0 0 8 8" refX={7} refY={4} markerWidth={7} markerHeight={7} markerUnits="userSpaceOnUse" orient="auto">
        <path d="M0 0.5L8 4L0 7.5z" />
      </marker>
      <g className="oplab-Edges" aria-hidden="true">
        {map.edges.map(edge => (
          <path
            key={`${edge.from} ${edge.to}`}
            d={curve(edge.points)}
            markerEnd="url(#oplab-head)"
            className={near === edge.from || near === edge.to ? 'oplab-mod-near' : undefined}
          />
        ))}
      </g>
      {map.nodes.map(node => {
        const chapter = chapters.find(entry => entry.id === node.id);
        if (!chapter) {
          return null;
        }
        const look = lookOfChapter(chapter, trans);
        const lines = wrap(chapter.title, Math.floor((node.width - 16) / LETTER));
        return (
          <a
            key={node.id}
            href={`#${chapter.id}`}
            className={`oplab-Node oplab-mod-${look.tone}${chapter.stem === current ? ' oplab-mod-current' : ''}`}
            aria-label={nameOf(chapter, chapters, trans)}
            aria-current={chapter.stem === current ? 'step' : undefined}
            onClick={event => {
              event.preventDefault();
              void actions.openLesson(chapter);
            }}
            onFocus={() => setNear(node.id)}
            onBlur={() => setNear('')}
            onMouseEnter={() => setNear(node.id)}
            onMouseLeave={() => setNear('')}
          >
            <title>{`${numberOf(chapter)} ${chapter.title}`}</title>
            <rect x={node.x} y={node.y} width={node.width} height={node.height} rx={6} />
            <text className="oplab-NodeNumber" x={node.x + 8} y={node.y + 16}>
              {numberOf(chapter)}
            </text>
            <text className="oplab-NodeSymbol" x={node.x + node.width - 8} y={node.y + 16} textAnchor="end">
              {look.symbol}
            </text>
            {lines.map((line, index) => (
              <text key={index} x={node.x + 8} y={node.y + 32 + index * 13.5}>
                {line}
              </text>
            ))}
          </a>
        );
      })}
    </svg>
  );
}

function List({ chapters, current, actions }: Omit<MapProps, 'map'>): React.ReactElement {
  const { trans } = actions;
  return (
    <ol className="oplab-MapList" role="list">
      {chapters.map(chapter => {
        const look = lookOfChapter(chapter, trans);
        return (
          <li key={chapter.id}>
            <button
              className="oplab-MapItem"
              aria-label={nameOf(chapter, chapters, trans)}
              aria-current={chapter.stem === current ? 'step' : undefined}
              disabled={!chapter.lesson}
              onClick={() => void actions.openLesson(chapter)}
            >
              <span className={`oplab-Symbol oplab-mod-${look.tone}`}>{look.symbol}</span>
              <span className="oplab-Number">{numberOf(chapter)}</span>
              <span className="oplab-Name">{chapter.title}</span>
              <span className="oplab-Quiet">
                {look.word} · {minutesOf(chapter, trans)}
              </span>
            </button>
          </li>
        );
      })}
    </ol>
  );
}

/** The map: a picture where there is room, a list elsewhere. Only one of them is displayed. */
export function ChapterMap(props: MapProps): React.ReactElement {
  const { trans } = props.actions;
  return (
    <section className="oplab-Map" aria-label={trans.__('Chapters')}>
      {props.map?.nodes.length > 0 && <Picture {...props} />}
      <List {...props} />
      <p className="oplab-Legend" aria-hidden="true">
        <span className="oplab-mod-good">✓ {trans.__('done')}</span>
        <span className="oplab-mod-odd">◐ {trans.__('started')}</span>
        <span className="oplab-mod-quiet">○ {trans.__('to do')}</span>
      </p>
    </section>
  );
}
