// The colors of the map, in light and dark.
import * as tokens from "@cloudscape-design/design-tokens";
import type { Address, Card, CardKind } from "./network";

export const colors = {
  background: tokens.colorBackgroundLayoutMain,
  box: tokens.colorBackgroundContainerContent,
  subnet: tokens.colorBackgroundContainerHeader,
  border: tokens.colorBorderDividerDefault,
  text: tokens.colorTextBodyDefault,
  secondary: tokens.colorTextBodySecondary,
  selected: tokens.colorBorderItemFocused,
  selectedBox: tokens.colorBackgroundItemSelected,
  path: tokens.colorChartsStatusPositive,
  failed: tokens.colorTextStatusError,
  changing: tokens.colorTextStatusInfo,
  stopped: tokens.colorTextStatusInactive,
};

export const kindNames: Record<CardKind, string> = {
  "instance": "Instance",
  "fargate": "Fargate pod",
  "cluster": "EKS cluster network interface",
  "load-balancer": "Load balancer network interface",
  "nat-gateway": "NAT gateway",
  "endpoint": "Interface endpoint",
  "interface": "Network interface",
};

export const kindColors: Record<CardKind, string> = {
  "instance": tokens.colorChartsPaletteCategorical1,
  "fargate": tokens.colorChartsPaletteCategorical2,
  "cluster": tokens.colorChartsPaletteCategorical3,
  "load-balancer": tokens.colorChartsPaletteCategorical4,
  "nat-gateway": tokens.colorChartsPaletteCategorical5,
  "endpoint": tokens.colorChartsPaletteCategorical6,
  "interface": tokens.colorTextBodySecondary,
};

/** The classes of dots. */
export type DotClass = "pod" | "starting" | "primary" | "free";

/** DotClassOf returns how an address is drawn. */
export function dotClassOf({ pods, primary }: Address): DotClass {
  if (pods.some(({ phase }) => phase !== "Running")) return "starting";
  if (primary && pods.length !== 1) return "primary";
  return pods.length > 0 ? "pod" : "free";
}

export const dotNames: Record<DotClass, string> = {
  primary: "Primary address",
  pod: "Address of a pod that runs",
  starting: "Address of a pod that does not run yet",
  free: "Secondary address without a pod",
};

export const dotColors: Record<DotClass, string> = {
  primary: tokens.colorTextBodySecondary,
  pod: tokens.colorChartsStatusPositive,
  starting: tokens.colorChartsStatusMedium,
  free: tokens.colorBorderDividerDefault,
};

/** StateColor returns the color of the state of a card; undefined for one that needs no attention. */
export function stateColor({ state }: Card): string | undefined {
  if (/^(failed|Failed|error)$/.test(state)) return colors.failed;
  if (/^(pending|Pending|shutting-down|stopping|deleting|provisioning)$/.test(state)) return colors.changing;
  return /^(stopped|deleted)$/.test(state) ? colors.stopped : undefined;
}
