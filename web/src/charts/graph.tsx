/** The steps of a job as a graph, with how each of them stands. */

import dagre from "@dagrejs/dagre";
import type { Graph, StepDefinition, StepState } from "../api/types";
import { lookOf } from "../ui/outcomes";
import { SHAPES } from "../ui/shapes";

const WIDTH = 176;
const HEIGHT = 46;
/** Beyond this a picture says less than a list. */
const NODES_MAX = 300;

const HANDLERS: Record<string, string> = { on_success: "on success", on_failure: "on failure", on_cancel: "on cancel", on_exit: "at the end" };

interface Placed extends StepDefinition {
  x: number;
  y: number;
}

interface Layout {
  nodes: Placed[];
  edges: string[];
  width: number;
  height: number;
}

export function layOut(steps: StepDefinition[], edges: { from: string; to: string }[]): Layout {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 18, ranksep: 46, marginx: 6, marginy: 6 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const step of steps) graph.setNode(step.name, { width: WIDTH, height: HEIGHT });
  for (const edge of edges) graph.setEdge(edge.from, edge.to);
  dagre.layout(graph);
  const size = graph.graph() as { width?: number; height?: number };
  return {
    nodes: steps.map((step) => ({ ...step, ...(graph.node(step.name) as { x: number; y: number }) })),
    edges: graph.edges().map((edge) => curve((graph.edge(edge) as { points: { x: number; y: number }[] }).points)),
    width: size.width ?? 0,
    height: size.height ?? 0,
  };
}

function curve(points: { x: number; y: number }[]): string {
  const [first, ...rest] = points;
  const last = rest.at(-1);
  if (!first || !last) return "";
  const middle = (first.x + last.x) / 2;
  if (rest.length <= 2) return `M${first.x} ${first.y}C${middle} ${first.y} ${middle} ${last.y} ${last.x} ${last.y}`;
  return `M${first.x} ${first.y}L${rest.map((point) => `${point.x} ${point.y}`).join("L")}`;
}

interface Props {
  graph: Graph;
  steps: StepState[];
}

export function StepGraph({ graph, steps }: Props) {
  const latest = new Map(steps.map((step) => [step.name, step]));
  if (graph.nodes.length > NODES_MAX) return <StepList nodes={graph.nodes} latest={latest} />;
  const { nodes, edges, width, height } = layOut(graph.nodes, graph.edges);
  const words = graph.nodes.map((node) => `${node.name}${node.depends.length ? ` after ${node.depends.join(" and ")}` : ""}`).join("; ");
  const handlers = Object.entries(graph.handlers);
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
          <StepBox key={node.name} node={node} state={latest.get(node.name)} />
        ))}
      </svg>
      {handlers.length > 0 && (
        <p class="quiet small graph-foot">
          {handlers.map(([when, step]) => (
            <span key={when} class="row-tag" data-tip={step.summary}>
              {HANDLERS[when] ?? when}: {step.name}
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
    <g class={`node is-${look.color}`} transform={`translate(${node.x - WIDTH / 2} ${node.y - HEIGHT / 2})`} data-tip={`${node.name}: ${node.summary}\n${look.word}${state?.detail ? `: ${state.detail}` : ""}`}>
      <rect width={WIDTH} height={HEIGHT} rx="8" />
      <g transform="translate(11 16) scale(0.86)" class="glyph">
        {body && <path class="body" d={body} />}
        {line && <path class={body ? "line over" : "line"} d={line} />}
      </g>
      <text x="33" y="20" class="node-name">
        {cut(node.name, 18)}
      </text>
      <text x="33" y="36" class="node-about">
        {cut(state ? look.word : node.kind, 22)}
      </text>
    </g>
  );
}

const cut = (text: string, length: number): string => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

function StepList({ nodes, latest }: { nodes: StepDefinition[]; latest: Map<string, StepState> }) {
  return (
    <ol class="step-list">
      {nodes.map((node) => (
        <li key={node.name}>
          {node.name} <span class="quiet small">{latest.get(node.name)?.state ?? node.kind}</span>
        </li>
      ))}
    </ol>
  );
}
