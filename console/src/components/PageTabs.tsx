import Tabs from "@cloudscape-design/components/tabs";
import { type ReactNode, Suspense } from "react";
import { useNavigate } from "react-router";
import { Loading } from "./Loading";

interface PageTab {
  id: string;
  label: string;
  content: ReactNode;
}

interface Props {
  /** What the tabs are of: "Cluster". */
  label: string;
  /** The address of the page, to which the ID of the open tab is added. */
  address: string;
  /** The ID of the open tab. */
  open: string;
  tabs: PageTab[];
}

/** PageTabs are the tabs of a page. The open one is in the address of the page; the others are not rendered. */
export function PageTabs({ label, address, open, tabs }: Props) {
  const navigate = useNavigate();
  return (
    <Tabs
      ariaLabel={label}
      activeTabId={open}
      onChange={({ detail }) => void navigate(`${address}/${detail.activeTabId}`, { replace: true })}
      tabs={tabs.map((tab) => ({
        ...tab,
        content: tab.id === open && <Suspense fallback={<Loading what={tab.label} />}>{tab.content}</Suspense>,
      }))}
    />
  );
}
