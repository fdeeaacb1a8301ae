// The graph of a stack: its resources, and an edge from each to what it depends on.
import { graphlib, layout } from "@dagrejs/dagre";
import { dependenciesOf, type Dependency, type TemplateResource } from "./template";

interface Point {
  x: number;
  y: number;
}

/** A resource, with the point of its upper left corner. */
export interface GraphNode extends Point {
  id: string;
  /** Undefined for what the stack has, and its template does not: what an update removes. */
  resource?: TemplateResource;
}

/** A dependency, as a line from the resource to what it depends on. */
export interface GraphEdge extends Dependency {
  points: Point[];
}

export interface Graph {
  nodes: GraphNode[];
  edges: GraphEdge[];
  width: number;
  height: number;
}

export const nodeWidth = 230;
export const nodeHeight = 66;

/**
 * LayOutGraph places the resources of a template, and more that the stack has. Each is right of what it depends on, so
 * that CloudFormation creates them from left to right.
 */
export function layOutGraph(resources: Map<string, TemplateResource>, more: string[]): Graph {
  const graph = new graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 18, ranksep: 60, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  const ids = [...new Set([...resources.keys(), ...more])];
  for (const id of ids) graph.setNode(id, { width: nodeWidth, height: nodeHeight });
  const dependencies = dependenciesOf(resources);
  for (const { from, to } of dependencies) graph.setEdge(to, from);
  layout(graph);
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  const nodes = ids.map((id) => {
    const { x, y } = graph.node(id) as Point;
    return { id, resource: resources.get(id), x: x - nodeWidth / 2, y: y - nodeHeight / 2 };
  });
  const edges = dependencies.map((dependency) => {
    const { points } = graph.edge(dependency.to, dependency.from) as { points: Point[] };
    const [start, end] = [graph.node(dependency.from) as Point, graph.node(dependency.to) as Point];
    const bends = points.slice(1, -1).reverse();
    return {
      ...dependency,
      points: [{ x: start.x - nodeWidth / 2, y: start.y }, ...bends, { x: end.x + nodeWidth / 2, y: end.y }],
    };
  });
  // By place, which is the order of the Tab key and of screen readers.
  nodes.sort((a, b) => a.x - b.x || a.y - b.y);
  return { nodes, edges, width: Number.isFinite(width) ? width : 0, height: Number.isFinite(height) ? height : 0 };
}

/** Curve returns the path of a line that bends softly at its points. */
export function curve(points: Point[]): string {
  const [first, ...others] = points;
  const last = others.at(-1);
  if (first === undefined || last === undefined) return "";
  const bends = others.slice(0, -1).map(({ x, y }, i) => {
    const next = others[i + 1] ?? last;
    const end = i === others.length - 2 ? last : { x: (x + next.x) / 2, y: (y + next.y) / 2 };
    return `Q${x} ${y} ${end.x} ${end.y}`;
  });
  return [`M${first.x} ${first.y}`, ...(bends.length === 0 ? [`L${last.x} ${last.y}`] : bends)].join("");
}

const directions: Record<string, Point> = {
  ArrowLeft: { x: -1, y: 0 },
  ArrowRight: { x: 1, y: 0 },
  ArrowUp: { x: 0, y: -1 },
  ArrowDown: { x: 0, y: 1 },
};

/** NeighborOf returns the resource to which an arrow key goes: the nearest in its direction. */
export function neighborOf(nodes: GraphNode[], from: GraphNode, key: string): GraphNode | undefined {
  const direction = directions[key];
  if (direction === undefined) return undefined;
  const distances = nodes.flatMap((node) => {
    const [x, y] = [node.x - from.x, node.y - from.y];
    const along = x * direction.x + y * direction.y;
    const across = Math.abs(x * direction.y) + Math.abs(y * direction.x);
    return along > 0 ? [{ node, distance: along + 3 * across }] : [];
  });
  distances.sort((a, b) => a.distance - b.distance);
  return distances[0]?.node;
}
