import { type Area, type Crumb, page } from "../../../app/area";
import { computeAddress, nodegroupAddress } from "../addresses";

const of = (cluster = ""): Crumb[] => [
  { text: "Clusters", to: "/clusters" },
  { text: cluster, to: computeAddress(cluster) },
];

const area: Area = {
  routes: [
    page(
      "/clusters/:cluster/nodegroup-create",
      ({ cluster = "" }) => [
        ...of(cluster),
        { text: "Create node group", to: `/clusters/${encodeURIComponent(cluster)}/nodegroup-create` },
      ],
      () => import("./CreateNodegroupPage"),
    ),
    page(
      "/clusters/:cluster/nodegroups/:nodegroup/edit",
      ({ cluster = "", nodegroup = "" }) => [
        ...of(cluster),
        { text: nodegroup, to: nodegroupAddress(cluster, nodegroup) },
        { text: "Edit node group", to: nodegroupAddress(cluster, nodegroup, "edit") },
      ],
      () => import("./EditNodegroupPage"),
    ),
    page(
      "/clusters/:cluster/nodegroups/:nodegroup/:tab?",
      ({ cluster = "", nodegroup = "" }) => [
        ...of(cluster),
        { text: nodegroup, to: nodegroupAddress(cluster, nodegroup) },
      ],
      () => import("./NodegroupPage"),
    ),
  ],
};

export default area;
