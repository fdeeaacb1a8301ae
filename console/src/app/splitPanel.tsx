import { createContext, type ReactNode, useContext, useEffect } from "react";

/** What sets the split panel of the layout. */
export const SplitPanelContext = createContext<(panel: ReactNode) => void>(() => undefined);

/** UseSplitPanel shows a panel (a SplitPanel of Cloudscape) beside or below the page, while the page is there. */
export function useSplitPanel(panel: ReactNode): void {
  const setPanel = useContext(SplitPanelContext);
  useEffect(() => {
    setPanel(panel);
    return () => setPanel(null);
  }, [panel, setPanel]);
}
