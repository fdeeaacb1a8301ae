import { lazy } from "react";
import type { ClusterTab } from "../tab";

const tab: ClusterTab = { id: "access", label: "Access", order: 50, Content: lazy(() => import("./AccessTab")) };

export default tab;
