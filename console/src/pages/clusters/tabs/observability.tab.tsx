import { lazy } from "react";
import type { ClusterTab } from "../tab";

const tab: ClusterTab = {
  id: "observability",
  label: "Observability",
  order: 60,
  Content: lazy(() => import("./ObservabilityTab")),
};

export default tab;
