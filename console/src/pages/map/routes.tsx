import { type Area, page } from "../../app/area";

const map = { text: "Map", to: "/map" };

const area: Area = {
  links: [{ order: 200, ...map }],
  routes: [page("/map", () => [map], () => import("./MapPage"))],
};

export default area;
