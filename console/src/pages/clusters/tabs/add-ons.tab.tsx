import { lazy } from "react";
import type { ClusterTab } from "../tab";

const tab: ClusterTab = { id: "add-ons", label: "Add-ons", order: 40, Content: lazy(() => import("./AddonsTab")) };

export default tab;
