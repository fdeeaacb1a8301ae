import { type Area, page } from "../../../app/area";

const addressOf = (cluster: string, ...rest: string[]) =>
  ["/clusters", ...[cluster, ...rest].map(encodeURIComponent)].join("/");

const crumbs = (cluster: string, text: string, ...rest: string[]) => [
  { text: "Clusters", to: "/clusters" },
  { text: cluster, to: addressOf(cluster) },
  { text: "Access", to: addressOf(cluster, "access") },
  { text, to: addressOf(cluster, ...rest) },
];

const area: Area = {
  routes: [
    page(
      "/clusters/:cluster/access-entry-create",
      ({ cluster = "" }) => crumbs(cluster, "Create access entry", "access-entry-create"),
      () => import("./CreateAccessEntryPage"),
    ),
    page(
      "/clusters/:cluster/access-entries/:principal",
      ({ cluster = "", principal = "" }) => crumbs(cluster, principal, "access-entries", principal),
      () => import("./AccessEntryPage"),
    ),
    page(
      "/clusters/:cluster/pod-identity-association-create",
      ({ cluster = "" }) => crumbs(cluster, "Create Pod Identity association", "pod-identity-association-create"),
      () => import("./CreateAssociationPage"),
    ),
    page(
      "/clusters/:cluster/pod-identity-associations/:association",
      ({ cluster = "", association = "" }) => crumbs(cluster, association, "pod-identity-associations", association),
      () => import("./AssociationPage"),
    ),
  ],
};

export default area;
