import { type Area, page } from "../../app/area";
import { updateAddress } from "./address";

const area: Area = {
  routes: [
    page(
      "/clusters/:cluster/node-groups/:nodegroup/update",
      ({ cluster = "", nodegroup = "" }) => [
        { text: "Clusters", to: "/clusters" },
        { text: cluster, to: `/clusters/${encodeURIComponent(cluster)}/compute` },
        { text: `Update of node group ${nodegroup}`, to: updateAddress(cluster, nodegroup) },
      ],
      () => import("./RollingUpdatePage"),
    ),
  ],
};

export default area;
