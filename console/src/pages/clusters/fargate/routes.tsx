import { type Area, type Crumb, page } from "../../../app/area";
import { computeAddress, profileAddress } from "../addresses";

const of = (cluster = ""): Crumb[] => [
  { text: "Clusters", to: "/clusters" },
  { text: cluster, to: computeAddress(cluster) },
];

const area: Area = {
  routes: [
    page(
      "/clusters/:cluster/fargate-profile-create",
      ({ cluster = "" }) => [
        ...of(cluster),
        { text: "Create Fargate profile", to: `/clusters/${encodeURIComponent(cluster)}/fargate-profile-create` },
      ],
      () => import("./CreateFargateProfilePage"),
    ),
    page(
      "/clusters/:cluster/fargate-profiles/:profile",
      ({ cluster = "", profile = "" }) => [
        ...of(cluster),
        { text: profile, to: profileAddress(cluster, profile) },
      ],
      () => import("./FargateProfilePage"),
    ),
  ],
};

export default area;
