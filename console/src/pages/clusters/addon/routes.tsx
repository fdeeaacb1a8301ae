import { type Area, page } from "../../../app/area";

const crumbs = (cluster: string) => {
  const to = `/clusters/${encodeURIComponent(cluster)}`;
  return [
    { text: "Clusters", to: "/clusters" },
    { text: cluster, to },
    { text: "Add-ons", to: `${to}/add-ons` },
  ];
};

const addonCrumbs = (cluster: string, addon: string) => [
  ...crumbs(cluster),
  { text: addon, to: `/clusters/${encodeURIComponent(cluster)}/add-ons/${encodeURIComponent(addon)}` },
];

const area: Area = {
  routes: [
    page(
      "/clusters/:cluster/add-on-create",
      ({ cluster = "" }) => [
        ...crumbs(cluster),
        { text: "Get more add-ons", to: `/clusters/${encodeURIComponent(cluster)}/add-on-create` },
      ],
      () => import("./CreateAddonPage"),
    ),
    page(
      "/clusters/:cluster/add-ons/:addon",
      ({ cluster = "", addon = "" }) => addonCrumbs(cluster, addon),
      () => import("./AddonPage"),
    ),
    page(
      "/clusters/:cluster/add-ons/:addon/edit",
      ({ cluster = "", addon = "" }) => [...addonCrumbs(cluster, addon), { text: "Edit", to: "" }],
      () => import("./EditAddonPage"),
    ),
  ],
};

export default area;
