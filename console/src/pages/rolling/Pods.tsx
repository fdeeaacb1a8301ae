import Box from "@cloudscape-design/components/box";
import SpaceBetween from "@cloudscape-design/components/space-between";
import * as tokens from "@cloudscape-design/design-tokens";
import { count } from "../map/layout";
import type { Pod } from "./objects";

/** How a pod is drawn. */
type PodState = "blocked" | "terminating" | "starting" | "ready" | "stays";

const names: Record<PodState, string> = {
  ready: "ready",
  starting: "not ready",
  terminating: "terminating",
  blocked: "held back by a budget",
  stays: "DaemonSet or static",
};

const colors: Record<PodState, string> = {
  ready: tokens.colorChartsStatusPositive,
  starting: tokens.colorChartsStatusMedium,
  terminating: tokens.colorTextStatusInactive,
  blocked: tokens.colorChartsStatusHigh,
  stays: tokens.colorBorderDividerDefault,
};

/** PodStateOf returns how a pod is drawn. */
function podStateOf({ uid, deadline, stays, ready, phase }: Pod, blocked: Set<string>): PodState {
  if (deadline !== undefined) return "terminating";
  if (stays) return "stays";
  if (blocked.has(uid)) return "blocked";
  return ready || phase === "Succeeded" ? "ready" : "starting";
}

/** Mark draws a pod. Its shape tells what its color does. */
function Mark({ state, x, y }: { state: PodState; x: number; y: number }) {
  const color = colors[state];
  const line = { fill: "none", stroke: color };
  switch (state) {
    case "blocked":
      return <rect x={x + 1} y={y + 1} width={12} height={12} style={{ fill: color }} />;
    case "terminating":
      return <path d={`M${x + 3} ${y + 3}l8 8m0-8l-8 8`} strokeWidth={2} style={line} />;
    case "starting":
      return <circle cx={x + 7} cy={y + 7} r={5} strokeWidth={2} style={line} />;
    case "stays":
      return <circle cx={x + 7} cy={y + 7} r={3} style={{ fill: color }} />;
    case "ready":
      return <circle cx={x + 7} cy={y + 7} r={6} style={{ fill: color }} />;
  }
}

const pitch = 16;
const perRow = 24;

/** Pods draws the pods of a node, and counts them. */
export function Pods({ pods, blocked }: { pods: Pod[]; blocked: Set<string> }) {
  const states = pods.map((pod) => podStateOf(pod, blocked));
  const counts = (Object.keys(names) as PodState[]).flatMap((state) => {
    const n = states.filter((each) => each === state).length;
    return n === 0 ? [] : [`${n} ${names[state]}`];
  });
  const text = pods.length === 0 ? "No pods" : `${count(pods.length, "pod")}: ${counts.join(", ")}`;
  const rows = Math.ceil(pods.length / perRow);
  return (
    <SpaceBetween size="xxs">
      <Box fontSize="body-s">{text}</Box>
      {rows > 0 && (
        <svg width={Math.min(pods.length, perRow) * pitch} height={rows * pitch} role="img" aria-label={text}>
          {pods.map((pod, i) => (
            <g key={pod.uid}>
              <title>{`${pod.namespace}/${pod.name}: ${names[podStateOf(pod, blocked)]}`}</title>
              <Mark
                state={podStateOf(pod, blocked)}
                x={(i % perRow) * pitch}
                y={Math.floor(i / perRow) * pitch}
              />
            </g>
          ))}
        </svg>
      )}
    </SpaceBetween>
  );
}

/** PodLegend says what the marks mean. */
export function PodLegend() {
  return (
    <SpaceBetween direction="horizontal" size="m">
      {(Object.keys(names) as PodState[]).map((state) => (
        <Box key={state} fontSize="body-s">
          <svg width={14} height={14} aria-hidden="true">
            <Mark state={state} x={0} y={0} />
          </svg>{" "}
          {names[state].charAt(0).toUpperCase() + names[state].slice(1)}
        </Box>
      ))}
    </SpaceBetween>
  );
}
