import { type Area, page } from "../../app/area";

const home = { text: "Home", to: "/" };

const area: Area = {
  links: [{ order: 0, ...home }],
  routes: [page("/", () => [home], () => import("./HomePage"))],
};

export default area;
