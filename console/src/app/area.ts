// An area is a part of the console: its routes, and its links in the side navigation. Each directory of src/pages has
// a file routes.tsx whose default export is an Area, and so may a directory below it; all of them are found by name, so
// that areas do not share a file.
import type { ComponentType } from "react";
import type { Params, RouteObject } from "react-router";

/** A link of the side navigation. */
export interface NavigationLink {
  /** Links are sorted by order: Home has 0, the last area 900. */
  order: number;
  /** Links of one section stand below its title, at the place of the first of them. */
  section?: string;
  text: string;
  /** The path, without the base path of the console: "/clusters". */
  to: string;
}

/** A breadcrumb. The last one names the page, in the browser's tab too. */
export interface Crumb {
  text: string;
  to: string;
}

/** What a route says about its page. */
export interface PageHandle {
  crumbs: (params: Params) => Crumb[];
}

export interface Area {
  links?: NavigationLink[];
  routes: RouteObject[];
}

/** Page returns a route whose component is the default export of a module that is loaded when it is visited. */
export function page(
  path: string,
  crumbs: PageHandle["crumbs"],
  load: () => Promise<{ default: ComponentType }>,
): RouteObject {
  const handle: PageHandle = { crumbs };
  return { path, handle, lazy: async () => ({ Component: (await load()).default }) };
}
