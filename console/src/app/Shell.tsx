import AppLayout from "@cloudscape-design/components/app-layout";
import BreadcrumbGroup from "@cloudscape-design/components/breadcrumb-group";
import SideNavigation from "@cloudscape-design/components/side-navigation";
import { type ReactNode, useEffect, useMemo, useState } from "react";
import { Outlet, useHref, useLocation, useMatches, useNavigate, useNavigation } from "react-router";
import { Loading } from "../components/Loading";
import type { Crumb, PageHandle } from "./area";
import { links } from "./areas";
import { activeLink, navigationItems } from "./navigation";
import { NotificationBar } from "./notifications";
import { SplitPanelContext } from "./splitPanel";
import TopBar from "./TopBar";

/** Shell is what surrounds every page: the navigation, breadcrumbs and notifications. */
export default function Shell({ children }: { children?: ReactNode }) {
  const navigate = useNavigate();
  const { pathname } = useLocation();
  const loading = useNavigation().state === "loading";
  const root = useHref("/").replace(/\/$/, "");
  const crumbs = useCrumbs();
  const [navigationOpen, setNavigationOpen] = useState(() => window.innerWidth > 1000);
  const [panel, setPanel] = useState<ReactNode>(null);
  const [panelOpen, setPanelOpen] = useState(true);
  const [panelPosition, setPanelPosition] = useState<"side" | "bottom">("side");
  const items = useMemo(() => navigationItems(links, (to) => root + to), [root]);

  useEffect(() => {
    document.title = [crumbs.at(-1)?.text, "Coracle"].filter(Boolean).join(" | ");
  }, [crumbs]);

  const follow = (event: CustomEvent<{ href?: string; external?: boolean }>) => {
    const { href, external } = event.detail;
    if (external === true || href?.startsWith(root + "/") !== true) return;
    event.preventDefault();
    void navigate(href.slice(root.length));
  };
  return (
    <>
      <div id="top">
        <TopBar />
      </div>
      <AppLayout
        headerSelector="#top"
        navigationOpen={navigationOpen}
        onNavigationChange={({ detail }) => setNavigationOpen(detail.open)}
        toolsHide
        maxContentWidth={Number.MAX_VALUE}
        ariaLabels={{
          navigation: "Side navigation",
          navigationClose: "Close side navigation",
          navigationToggle: "Open side navigation",
          notifications: "Notifications",
        }}
        navigation={
          <SideNavigation
            header={{ text: "Coracle", href: root + "/" }}
            items={items}
            activeHref={root + activeLink(links, pathname)}
            onFollow={follow}
          />
        }
        breadcrumbs={
          crumbs.length > 1 ? (
            <BreadcrumbGroup
              ariaLabel="Breadcrumbs"
              items={crumbs.map(({ text, to }) => ({ text, href: root + to }))}
              onFollow={follow}
            />
          ) : undefined
        }
        notifications={<NotificationBar />}
        splitPanel={panel}
        splitPanelOpen={panelOpen}
        splitPanelPreferences={{ position: panelPosition }}
        onSplitPanelPreferencesChange={({ detail }) => setPanelPosition(detail.position)}
        onSplitPanelToggle={({ detail }) => setPanelOpen(detail.open)}
        content={
          <SplitPanelContext.Provider value={setPanel}>
            {loading ? <Loading what="page" /> : (children ?? <Outlet />)}
          </SplitPanelContext.Provider>
        }
      />
    </>
  );
}

function useCrumbs(): Crumb[] {
  const match = useMatches().findLast(({ handle }) => handle !== undefined);
  return useMemo(() => {
    const handle = match?.handle as PageHandle | undefined;
    return handle === undefined || match === undefined ? [] : handle.crumbs(match.params);
  }, [match]);
}
