import type { SideNavigationProps } from "@cloudscape-design/components/side-navigation";
import type { NavigationLink } from "./area";

/** NavigationItems returns the items of the side navigation, with the links of a section below its title. */
export function navigationItems(
  links: NavigationLink[],
  href: (to: string) => string,
): SideNavigationProps.Item[] {
  const items: SideNavigationProps.Item[] = [];
  const sections = new Map<string, SideNavigationProps.Item[]>();
  for (const link of links) {
    const item = { type: "link" as const, text: link.text, href: href(link.to) };
    if (link.section === undefined) {
      items.push(item);
      continue;
    }
    let section = sections.get(link.section);
    if (section === undefined) {
      section = [];
      sections.set(link.section, section);
      items.push({ type: "section", text: link.section, items: section });
    }
    section.push(item);
  }
  return items;
}

/** ActiveLink returns the path of the link that a page belongs to: the longest that begins its path. */
export function activeLink(links: NavigationLink[], path: string): string {
  const within = links.filter(({ to }) => path === to || (to !== "/" && path.startsWith(to + "/")));
  return within.sort((a, b) => b.to.length - a.to.length)[0]?.to ?? "";
}
