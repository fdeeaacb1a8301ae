import { type Area, page } from "../../app/area";

const section = "Identity";
const access = { text: "Cluster access", to: "/cluster-access" };
const credentials = { text: "Pod credentials", to: "/pod-credentials" };
const roles = { text: "IAM roles", to: "/iam-roles" };
const users = { text: "IAM users", to: "/iam-users" };
const denials = { text: "Recent denials", to: "/denials" };
const history = { text: "Event history", to: "/event-history" };
const simulator = { text: "Policy simulator", to: "/policy-simulator" };

const area: Area = {
  links: [
    { order: 400, section, ...access },
    { order: 410, section, ...credentials },
    { order: 420, section, ...roles },
    { order: 430, section, ...users },
    { order: 440, section, ...simulator },
    { order: 450, section, ...denials },
    { order: 460, section, ...history },
  ],
  routes: [
    page("/cluster-access", () => [access], () => import("./ClusterAccessPage")),
    page("/pod-credentials", () => [credentials], () => import("./PodCredentialsPage")),
    page("/iam-roles", () => [roles], () => import("./RolesPage")),
    page(
      "/iam-roles/:name",
      ({ name = "" }) => [roles, { text: name, to: `/iam-roles/${encodeURIComponent(name)}` }],
      () => import("./RolePage"),
    ),
    page("/iam-users", () => [users], () => import("./UsersPage")),
    page(
      "/iam-users/:name",
      ({ name = "" }) => [users, { text: name, to: `/iam-users/${encodeURIComponent(name)}` }],
      () => import("./UserPage"),
    ),
    page("/policy-simulator", () => [simulator], () => import("./SimulatorPage")),
    page("/denials", () => [denials], () => import("./DenialsPage")),
    page("/event-history", () => [history], () => import("./EventHistoryPage")),
    page(
      "/event-history/:id",
      ({ id = "" }) => [history, { text: id, to: `/event-history/${encodeURIComponent(id)}` }],
      () => import("./EventPage"),
    ),
  ],
};

export default area;
