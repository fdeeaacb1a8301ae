import { type Area, page } from "../../app/area";

const instances = { text: "Instances", to: "/instances" };
const volumes = { text: "Volumes", to: "/volumes" };

const area: Area = {
  links: [
    { order: 600, section: "EC2", ...instances },
    { order: 610, section: "EC2", ...volumes },
  ],
  routes: [
    page("/instances", () => [instances], () => import("./InstancesPage")),
    page(
      "/instances/:instance/:tab?",
      ({ instance = "" }) => [instances, { text: instance, to: `/instances/${encodeURIComponent(instance)}` }],
      () => import("./InstancePage"),
    ),
    page("/volumes", () => [volumes], () => import("./VolumesPage")),
    page(
      "/volumes/:volume",
      ({ volume = "" }) => [volumes, { text: volume, to: `/volumes/${encodeURIComponent(volume)}` }],
      () => import("./VolumePage"),
    ),
  ],
};

export default area;
