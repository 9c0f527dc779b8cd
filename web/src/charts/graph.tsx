/** The steps of a job as a graph, with their states. */

import dagre from "@dagrejs/dagre";
import { useState } from "preact/hooks";
import type { Graph, GraphNode, StepState } from "../api/types";
import { lookOf } from "../ui/outcomes";
import { Button } from "../ui/parts";
import { SHAPES } from "../ui/shapes";
import { useWidth } from "../ui/width";

const WIDTH = 176;
const HEIGHT = 46;
/** Beyond this a picture says less than a list. */
const NODES_MAX = 300;

const HANDLERS: Record<string, string> = { on_success: "on success", on_failure: "on failure", on_cancel: "on cancel", on_exit: "on exit" };

interface Point {
  x: number;
  y: number;
}

interface Placed extends GraphNode {
  x: number;
  y: number;
}

interface Layout {
  nodes: Placed[];
  edges: string[];
  width: number;
  height: number;
}

export function layOut(steps: GraphNode[]): Layout {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 18, ranksep: 46, marginx: 6, marginy: 6 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const step of steps) graph.setNode(step.id, { width: WIDTH, height: HEIGHT });
  for (const step of steps) for (const before of step.depends) graph.setEdge(before, step.id);
  dagre.layout(graph);
  const at = (id: string) => graph.node(id) as Point;
  const size = graph.graph() as { width?: number; height?: number };
  return {
    nodes: steps.map((step) => ({ ...step, ...at(step.id) })),
    edges: graph.edges().map((edge) => {
      const [from, to] = [at(edge.v), at(edge.w)];
      const between = (graph.edge(edge) as { points: Point[] }).points.slice(1, -1);
      // From the middle of one side to the middle of the other; only edges that pass other steps go round them.
      return curve([{ x: from.x + WIDTH / 2, y: from.y }, ...(between.length > 1 ? between : []), { x: to.x - WIDTH / 2, y: to.y }]);
    }),
    width: size.width ?? 0,
    height: size.height ?? 0,
  };
}

function curve([first, ...rest]: [Point, ...Point[]]): string {
  let before = first;
  const parts = rest.map((point) => {
    const middle = (before.x + point.x) / 2;
    const part = `C${middle} ${before.y} ${middle} ${point.y} ${point.x} ${point.y}`;
    before = point;
    return part;
  });
  return `M${first.x} ${first.y}${parts.join("")}`;
}

interface Props {
  graph: Graph;
  steps: StepState[];
  chosen?: string | undefined;
  onPick?: (step: string) => void;
}

/** How much smaller than natural a graph is drawn: of a smaller one only the colours can be read, so it is drawn when asked for. */
const ZOOMS = [0.3, 0.5, 0.75, 1] as const;

/** Drawn smaller than this, a step has only its name, as large as its box: the two lines could not be read. */
const LEGIBLE = 0.7;
const SMALL_PX = 10;
const SMALL_MAX = 34;
/** How wide a letter is, of its height. */
const LETTER = 0.58;

export function StepGraph({ graph, steps, chosen, onPick }: Props) {
  const [box, room] = useWidth<HTMLDivElement>();
  const [zoom, setZoom] = useState<number | "fit" | null>(null);
  const latest = new Map(steps.map((step) => [step.name, step]));
  const own = graph.nodes.filter((node) => node.handler === null);
  if (own.length > NODES_MAX) return <StepList nodes={own} latest={latest} />;
  const { nodes, edges, width, height } = layOut(own);
  const words = own.map((node) => `${node.id}${node.depends.length ? ` after ${node.depends.join(" and ")}` : ""}`).join("; ");
  const handlers = graph.nodes.filter((node) => node.handler !== null);
  const fitting = room ? Math.min(1, (room - 24) / width) : 1;
  const scale = zoom === "fit" ? fitting : (zoom ?? Math.max(fitting, ZOOMS[0]));
  return (
    <div ref={box}>
    {fitting < 1 && (
      <div class="graph-zoom row small">
        <Button isSmall isDisabled={scale <= ZOOMS[0]} label="Smaller" onClick={() => setZoom(ZOOMS.findLast((one) => one < scale - 0.01) ?? ZOOMS[0])}>
          −
        </Button>
        <span>{Math.round(scale * 100)} %</span>
        <Button isSmall isDisabled={scale >= 1} label="Larger" onClick={() => setZoom(ZOOMS.find((one) => one > scale + 0.01) ?? 1)}>
          +
        </Button>
        <Button isSmall isDisabled={scale === fitting} onClick={() => setZoom("fit")}>
          Fit
        </Button>
      </div>
    )}
    <div class="graph-scroll" tabIndex={0} role="region" aria-label="Graph of steps">
      <svg class="graph" width={width * scale} height={height * scale} viewBox={`0 0 ${width} ${height}`} role={onPick ? "group" : "img"} aria-label={`Steps: ${words}`}>
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M0 0 8 4 0 8Z" class="arrow" />
          </marker>
        </defs>
        {edges.map((data) => (
          <path key={data} class="edge" d={data} marker-end="url(#arrow)" />
        ))}
        {nodes.map((node) => (
          <StepBox key={node.id} node={node} scale={scale} state={latest.get(node.id)} isChosen={node.id === chosen} onPick={onPick} />
        ))}
      </svg>
      {handlers.length > 0 && (
        <p class="quiet small graph-foot">
          {handlers.map((node) => (
            <span key={node.id} class="row-tag" data-tip={node.command}>
              {HANDLERS[node.handler ?? ""] ?? node.handler}: {node.id}
            </span>
          ))}
        </p>
      )}
    </div>
    </div>
  );
}

interface BoxProps {
  node: Placed;
  scale: number;
  state: StepState | undefined;
  isChosen: boolean;
  onPick: ((step: string) => void) | undefined;
}

function StepBox({ node, scale, state, isChosen, onPick }: BoxProps) {
  const handle = onPick && {
    role: "button" as const,
    tabindex: 0,
    "aria-pressed": isChosen,
    "aria-label": `${node.id} ${lookOf(state?.state ?? "pending").word}`,
    onClick: () => onPick(node.id),
    onKeyDown: (event: KeyboardEvent) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), onPick(node.id)),
  };
  const look = lookOf(state?.state ?? "pending");
  const { body, line } = SHAPES[look.shape];
  return (
    <g {...handle} class={`node is-${look.color}${isChosen ? " is-chosen" : ""}`} transform={`translate(${node.x - WIDTH / 2} ${node.y - HEIGHT / 2})`} data-tip={`${node.id}: ${node.command}\n${look.word}${state?.detail ? `: ${state.detail}` : ""}`}>
      <rect width={WIDTH} height={HEIGHT} rx="8" />
      {scale < LEGIBLE ? (
        <text x={WIDTH / 2} y={HEIGHT / 2} class="node-name" text-anchor="middle" dominant-baseline="central" style={{ fontSize: `${Math.min(SMALL_PX / scale, SMALL_MAX)}px` }}>
          {cut(node.id, Math.max(4, Math.floor((WIDTH - 8) / (Math.min(SMALL_PX / scale, SMALL_MAX) * LETTER))))}
        </text>
      ) : (
        <>
          <g transform="translate(11 16) scale(0.86)" class="glyph">
            {body && <path class="body" d={body} />}
            {line && <path class={body ? "line over" : "line"} d={line} />}
          </g>
          <text x="33" y="20" class="node-name">
            {cut(node.id, 18)}
          </text>
          <text x="33" y="36" class="node-about">
            {cut(state ? look.word : node.kind, 22)}
          </text>
        </>
      )}
    </g>
  );
}

const cut = (text: string, length: number): string => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

function StepList({ nodes, latest }: { nodes: GraphNode[]; latest: Map<string, StepState> }) {
  return (
    <ol class="step-list">
      {nodes.map((node) => (
        <li key={node.id}>
          {node.id} <span class="quiet small">{latest.get(node.id)?.state ?? node.kind}</span>
        </li>
      ))}
    </ol>
  );
}
