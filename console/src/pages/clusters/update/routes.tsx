import { type Area, page } from "../../../app/area";

const area: Area = {
  routes: [
    page(
      "/clusters/:cluster/version-upgrade",
      ({ cluster = "" }) => {
        const to = `/clusters/${encodeURIComponent(cluster)}`;
        return [
          { text: "Clusters", to: "/clusters" },
          { text: cluster, to },
          { text: "Upgrade version", to: `${to}/version-upgrade` },
        ];
      },
      () => import("./UpgradePage"),
    ),
  ],
};

export default area;
