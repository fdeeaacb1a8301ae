import { lazy } from "react";
import type { ClusterTab } from "../tab";

const tab: ClusterTab = {
  id: "update-history",
  label: "Update history",
  order: 70,
  Content: lazy(() => import("./UpdateHistoryTab")),
};

export default tab;
