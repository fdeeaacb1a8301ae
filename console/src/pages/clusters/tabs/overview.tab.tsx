import { lazy } from "react";
import type { ClusterTab } from "../tab";

const tab: ClusterTab = { id: "overview", label: "Overview", order: 0, Content: lazy(() => import("./OverviewTab")) };

export default tab;
