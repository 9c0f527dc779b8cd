/** The steps of a job as a graph, with how each of them stands. */

import dagre from "@dagrejs/dagre";
import type { Graph, GraphNode, StepState } from "../api/types";
import { lookOf } from "../ui/outcomes";
import { SHAPES } from "../ui/shapes";

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
}

export function StepGraph({ graph, steps }: Props) {
  const latest = new Map(steps.map((step) => [step.name, step]));
  const own = graph.nodes.filter((node) => node.handler === null);
  if (own.length > NODES_MAX) return <StepList nodes={own} latest={latest} />;
  const { nodes, edges, width, height } = layOut(own);
  const words = own.map((node) => `${node.id}${node.depends.length ? ` after ${node.depends.join(" and ")}` : ""}`).join("; ");
  const handlers = graph.nodes.filter((node) => node.handler !== null);
  return (
    <div class="graph-scroll" tabIndex={0} role="region" aria-label="Graph of steps">
      <svg class="graph" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`Steps: ${words}`}>
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M0 0 8 4 0 8Z" class="arrow" />
          </marker>
        </defs>
        {edges.map((data) => (
          <path key={data} class="edge" d={data} marker-end="url(#arrow)" />
        ))}
        {nodes.map((node) => (
          <StepBox key={node.id} node={node} state={latest.get(node.id)} />
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
  );
}

function StepBox({ node, state }: { node: Placed; state: StepState | undefined }) {
  const look = lookOf(state?.state ?? "pending");
  const { body, line } = SHAPES[look.shape];
  return (
    <g class={`node is-${look.color}`} transform={`translate(${node.x - WIDTH / 2} ${node.y - HEIGHT / 2})`} data-tip={`${node.id}: ${node.command}\n${look.word}${state?.detail ? `: ${state.detail}` : ""}`}>
      <rect width={WIDTH} height={HEIGHT} rx="8" />
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
