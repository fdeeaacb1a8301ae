import type { Area, NavigationLink } from "./area";

const found = import.meta.glob<Area>("../pages/**/routes.tsx", { eager: true, import: "default" });

/** All areas, in the order of their directories' names. */
export const areas: Area[] = Object.keys(found)
  .sort()
  .flatMap((path) => found[path] ?? []);

/** The links of all areas, in order. */
export const links: NavigationLink[] = areas.flatMap((area) => area.links ?? []).sort((a, b) => a.order - b.order);
