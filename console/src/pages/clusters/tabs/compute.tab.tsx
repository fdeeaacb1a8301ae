import { lazy } from "react";
import type { ClusterTab } from "../tab";

const tab: ClusterTab = { id: "compute", label: "Compute", order: 20, Content: lazy(() => import("./ComputeTab")) };

export default tab;
