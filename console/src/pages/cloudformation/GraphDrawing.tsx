import type { StackResourceSummary } from "@aws-sdk/client-cloudformation";
import type { StatusIndicatorProps } from "@cloudscape-design/components/status-indicator";
import * as tokens from "@cloudscape-design/design-tokens";
import { useId, useRef, useState } from "react";
import { button, clip } from "../../components/drawing";
import { statusType } from "../../components/status";
import { curve, type Graph, type GraphNode, neighborOf, nodeHeight, nodeWidth } from "./graph";
import "./graph.css";

interface Props {
  graph: Graph;
  summaries: Map<string, StackResourceSummary>;
  scale: number;
  selected: string | undefined;
  onSelect: (id: string) => void;
}

const statusColors: Partial<Record<StatusIndicatorProps.Type, string>> = {
  "success": tokens.colorTextStatusSuccess,
  "in-progress": tokens.colorTextStatusInfo,
  "warning": tokens.colorTextStatusWarning,
  "error": tokens.colorTextStatusError,
};

/** GraphDrawing draws a graph. It is one stop of the Tab key; arrow keys go from resource to resource. */
export function GraphDrawing({ graph, summaries, scale, selected, onSelect }: Props) {
  const { nodes, edges, width, height } = graph;
  const marker = useId();
  const elements = useRef(new Map<string, SVGGElement>());
  const [reached, setReached] = useState<string>();
  const stop = nodes.find(({ id }) => id === reached) ?? nodes.find(({ id }) => id === selected) ?? nodes[0];
  const related = (id: string) =>
    edges.some(({ from, to }) => (from === selected && to === id) || (to === selected && from === id));
  return (
    <svg
      className="drawing"
      role="group"
      aria-label="Graph of resources. Arrow keys go from one to another, and Enter selects it."
      width={width * scale}
      height={height * scale}
      viewBox={`0 0 ${width} ${height}`}
    >
      <defs>
        {[false, true].map((strong) => (
          <marker
            key={String(strong)}
            id={`${marker}${strong}`}
            viewBox="0 0 10 10"
            refX={9}
            refY={5}
            markerUnits="userSpaceOnUse"
            markerWidth={10}
            markerHeight={10}
            orient="auto"
          >
            <path d="M0 0L10 5L0 10z" style={{ fill: lineColor(strong) }} />
          </marker>
        ))}
      </defs>
      {edges.map(({ from, to, points }) => {
        const strong = from === selected || to === selected;
        return (
          <path
            key={`${from} ${to}`}
            d={curve(points)}
            strokeWidth={strong ? 2 : 1}
            markerEnd={`url(#${marker}${strong})`}
            style={{ fill: "none", stroke: lineColor(strong) }}
          />
        );
      })}
      {nodes.map((node) => {
        const { id } = node;
        const needs = edges.filter(({ from }) => from === id).map(({ to }) => to);
        const as = button(undefined, () => onSelect(id));
        return (
          <g
            key={id}
            {...as}
            ref={(element) => {
              if (element === null) elements.current.delete(id);
              else elements.current.set(id, element);
            }}
            aria-pressed={id === selected}
            aria-description={needs.length === 0 ? undefined : `Depends on ${needs.join(", ")}`}
            tabIndex={id === stop?.id ? 0 : -1}
            onFocus={() => setReached(id)}
            onKeyDown={(event) => {
              const next = neighborOf(nodes, node, event.key);
              if (next === undefined) return as.onKeyDown(event);
              event.preventDefault();
              elements.current.get(next.id)?.focus();
            }}
          >
            <NodeView
              node={node}
              summary={summaries.get(id)}
              mark={id === selected ? "selected" : related(id) ? "related" : "none"}
            />
          </g>
        );
      })}
    </svg>
  );
}

function lineColor(strong: boolean): string {
  return strong ? tokens.colorBorderItemFocused : tokens.colorTextBodySecondary;
}

/** StatusTextOf returns the status of a resource, also of one that CloudFormation has not begun to create. */
function statusTextOf(summary: StackResourceSummary | undefined): string {
  return summary?.ResourceStatus ?? "Not created";
}

interface NodeProps {
  node: GraphNode;
  summary: StackResourceSummary | undefined;
  mark: "none" | "selected" | "related";
}

function NodeView({ node: { id, resource, x, y }, summary, mark }: NodeProps) {
  const type = resource?.Type ?? summary?.ResourceType ?? "";
  const status = statusTextOf(summary);
  const color = statusColors[statusType(status)] ?? tokens.colorTextBodySecondary;
  return (
    <>
      <rect
        className="frame"
        {...{ x, y, width: nodeWidth, height: nodeHeight }}
        rx={8}
        strokeWidth={mark === "none" ? 1 : 2}
        style={{
          fill: mark === "selected" ? tokens.colorBackgroundItemSelected : tokens.colorBackgroundContainerContent,
          stroke: mark === "none" ? tokens.colorBorderDividerDefault : tokens.colorBorderItemFocused,
        }}
      />
      <rect {...{ x, y: y + 8, width: 4, height: nodeHeight - 16 }} style={{ fill: color }} />
      <text x={x + 14} y={y + 20} fontSize={13} fontWeight={700} style={{ fill: tokens.colorTextBodyDefault }}>
        {clip(id, 27)}
      </text>
      <text x={x + 14} y={y + 38} fontSize={12} style={{ fill: tokens.colorTextBodySecondary }}>
        {clip(type, 32)}
      </text>
      <text x={x + 14} y={y + 55} fontSize={11} fontWeight={700} style={{ fill: color }}>
        {status}
      </text>
    </>
  );
}
