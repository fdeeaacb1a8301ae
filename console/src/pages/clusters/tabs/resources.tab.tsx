import { lazy } from "react";
import type { ClusterTab } from "../tab";

const tab: ClusterTab = {
  id: "resources",
  label: "Resources",
  order: 10,
  Content: lazy(() => import("../../resources/ResourcesTab")),
};

export default tab;
