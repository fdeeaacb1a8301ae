// A tab of a cluster's page. Each file tabs/*.tab.tsx has one as its default export; all of them are found by name.
import type { Cluster } from "@aws-sdk/client-eks";
import type { ComponentType } from "react";

export interface TabProps {
  cluster: Cluster;
  /** The name of the cluster. */
  name: string;
}

export interface ClusterTab {
  /** The last part of the tab's address. */
  id: string;
  label: string;
  /** Tabs are sorted by order, as in AWS's console: Overview 0, Resources 10, Compute 20, Networking 30, Add-ons 40,
   * Capabilities 45, Access 50, Observability 60, Update history 70, Tags 80. */
  order: number;
  /** What is shown, loaded when the tab is opened: lazy(() => import("./ComputeTab")). */
  Content: ComponentType<TabProps>;
}
