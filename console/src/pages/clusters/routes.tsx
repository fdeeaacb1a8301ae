import { type Area, page } from "../../app/area";

const clusters = { text: "Clusters", to: "/clusters" };

const area: Area = {
  links: [{ order: 100, section: "Amazon EKS", ...clusters }],
  routes: [
    page("/clusters", () => [clusters], () => import("./ClustersPage")),
    page(
      "/cluster-create",
      () => [clusters, { text: "Create cluster", to: "/cluster-create" }],
      () => import("./create/CreateClusterPage"),
    ),
    page(
      "/clusters/:cluster/:tab?",
      ({ cluster = "" }) => [clusters, { text: cluster, to: `/clusters/${encodeURIComponent(cluster)}` }],
      () => import("./ClusterPage"),
    ),
  ],
};

export default area;
