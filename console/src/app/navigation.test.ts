import { expect, test } from "vitest";
import type { NavigationLink } from "./area";
import { activeLink, navigationItems } from "./navigation";

const links: NavigationLink[] = [
  { order: 0, text: "Home", to: "/" },
  { order: 10, text: "Clusters", to: "/clusters" },
  { order: 20, section: "EC2", text: "Instances", to: "/instances" },
  { order: 30, text: "Logs Insights", to: "/logs" },
  { order: 40, section: "EC2", text: "Volumes", to: "/volumes" },
];

test("links of a section stand together", () => {
  const items = navigationItems(links, (to) => "/console" + to);
  expect(items.map((i) => ("text" in i ? i.text : ""))).toEqual(["Home", "Clusters", "EC2", "Logs Insights"]);
  expect(items[2]).toMatchObject({
    items: [{ text: "Instances", href: "/console/instances" }, { text: "Volumes" }],
  });
});

test.each([
  ["/", "/"],
  ["/clusters", "/clusters"],
  ["/clusters/web/compute", "/clusters"],
  ["/clustersandmore", ""],
  ["/somewhere", ""],
])("the link of %s is %s", (path, to) => {
  expect(activeLink(links, path)).toBe(to);
});
