import type { TopNavigationProps } from "@cloudscape-design/components/top-navigation";
import TopNavigation from "@cloudscape-design/components/top-navigation";
import { useHref, useNavigate } from "react-router";
import { regionName, regions } from "../aws/regions";
import { useSession } from "../session/SessionProvider";
import { formatAccount, identityName } from "../session/session";
import { useTheme } from "./theme";

/** TopBar has the region, the theme and the account. */
export default function TopBar() {
  const navigate = useNavigate();
  const home = useHref("/");
  const { session, setRegion, signOut } = useSession();
  const { theme, setTheme } = useTheme();

  const who = `${identityName(session.arn)} @ ${formatAccount(session.account)}`;

  const region: TopNavigationProps.MenuDropdownUtility = {
    type: "menu-dropdown",
    text: regionName(session.region),
    description: session.region,
    ariaLabel: `${regionName(session.region)}: region ${session.region}`,
    items: regions.map(({ code, name }) => ({
      id: code,
      text: `${name} ${code}`,
      itemType: "checkbox",
      checked: code === session.region,
    })),
    onItemClick: ({ detail }) => setRegion(detail.id),
  };
  const mode: TopNavigationProps.MenuDropdownUtility = {
    type: "menu-dropdown",
    iconName: "settings",
    title: "Visual mode",
    ariaLabel: "Visual mode",
    items: (["system", "light", "dark"] as const).map((id) => ({
      id,
      text: { system: "Browser default", light: "Light", dark: "Dark" }[id],
      itemType: "checkbox",
      checked: id === theme,
    })),
    onItemClick: ({ detail }) => setTheme(detail.id as typeof theme),
  };
  const account: TopNavigationProps.MenuDropdownUtility = {
    type: "menu-dropdown",
    iconName: "user-profile",
    text: who,
    description: session.arn,
    ariaLabel: `${who}: account menu`,
    items: [{ id: "sign-out", text: "Sign out" }],
    onItemClick: () => signOut(),
  };
  return (
    <TopNavigation
      identity={{
        href: home,
        title: "Coracle",
        onFollow: (event) => {
          event.preventDefault();
          void navigate("/");
        },
      }}
      utilities={[region, mode, account]}
      i18nStrings={{
        overflowMenuTriggerText: "More",
        overflowMenuTitleText: "All",
        overflowMenuBackIconAriaLabel: "Back",
        overflowMenuDismissIconAriaLabel: "Close menu",
      }}
    />
  );
}
