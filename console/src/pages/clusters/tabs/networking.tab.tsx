import { lazy } from "react";
import type { ClusterTab } from "../tab";

const tab: ClusterTab = {
  id: "networking",
  label: "Networking",
  order: 30,
  Content: lazy(() => import("./NetworkingTab")),
};

export default tab;
