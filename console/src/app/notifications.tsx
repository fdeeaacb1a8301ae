import type { FlashbarProps } from "@cloudscape-design/components/flashbar";
import Flashbar from "@cloudscape-design/components/flashbar";
import { createContext, type ReactNode, useCallback, useContext, useMemo, useState } from "react";
import { describeError } from "../aws/errors";

/** What shows messages above the page. */
export interface Notifications {
  success: (content: ReactNode) => void;
  info: (content: ReactNode) => void;
  warning: (content: ReactNode) => void;
  /** Error shows what failed and why: error("Delete cluster web", error). */
  error: (attempted: string, error: unknown) => void;
}

interface Message {
  id: string;
  type: FlashbarProps.Type;
  header?: string;
  content: ReactNode;
}

const Actions = createContext<Notifications | null>(null);
const Messages = createContext<{ messages: Message[]; dismiss: (id: string) => void } | null>(null);

/** The messages that are kept; older ones go. */
const most = 20;

export function NotificationsProvider({ children }: { children: ReactNode }) {
  const [messages, setMessages] = useState<Message[]>([]);
  const add = useCallback((type: FlashbarProps.Type, content: ReactNode, header?: string) => {
    const message: Message = { id: crypto.getRandomValues(new Uint32Array(2)).join("-"), type, content, header };
    setMessages((before) => [message, ...before].slice(0, most));
  }, []);
  const actions = useMemo<Notifications>(
    () => ({
      success: (content) => add("success", content),
      info: (content) => add("info", content),
      warning: (content) => add("warning", content),
      error: (attempted, error) => {
        const { code, message } = describeError(error);
        add("error", message, code === "" ? attempted : `${attempted}: ${code}`);
      },
    }),
    [add],
  );
  const dismiss = useCallback((id: string) => setMessages((before) => before.filter((m) => m.id !== id)), []);
  const shown = useMemo(() => ({ messages, dismiss }), [messages, dismiss]);
  return (
    <Actions.Provider value={actions}>
      <Messages.Provider value={shown}>{children}</Messages.Provider>
    </Actions.Provider>
  );
}

/** UseNotifications returns what shows messages above the page. */
export function useNotifications(): Notifications {
  const actions = useContext(Actions);
  if (actions === null) throw new Error("no NotificationsProvider");
  return actions;
}

/** NotificationBar shows the messages. */
export function NotificationBar() {
  const shown = useContext(Messages);
  if (shown === null) throw new Error("no NotificationsProvider");
  return (
    <Flashbar
      stackItems
      i18nStrings={{
        ariaLabel: "Notifications",
        notificationBarAriaLabel: "View all notifications",
        notificationBarText: "Notifications",
        errorIconAriaLabel: "Error",
        warningIconAriaLabel: "Warning",
        successIconAriaLabel: "Success",
        infoIconAriaLabel: "Information",
        inProgressIconAriaLabel: "In progress",
      }}
      items={shown.messages.map((m) => ({
        id: m.id,
        type: m.type,
        header: m.header,
        content: m.content,
        dismissible: true,
        dismissLabel: "Dismiss notification",
        onDismiss: () => shown.dismiss(m.id),
      }))}
    />
  );
}
