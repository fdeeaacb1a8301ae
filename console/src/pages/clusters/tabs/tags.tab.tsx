import { lazy } from "react";
import type { ClusterTab } from "../tab";

const tab: ClusterTab = { id: "tags", label: "Tags", order: 80, Content: lazy(() => import("./TagsTab")) };

export default tab;
