import { type Area, page } from "../../app/area";

const area: Area = {
  routes: [
    page(
      "/cluster-objects/:cluster",
      ({ cluster = "" }) => [
        { text: "Clusters", to: "/clusters" },
        { text: cluster, to: `/clusters/${encodeURIComponent(cluster)}` },
        { text: "Resources", to: `/clusters/${encodeURIComponent(cluster)}/resources` },
      ],
      () => import("./ObjectPage"),
    ),
  ],
};

export default area;
