import * as tokens from "@cloudscape-design/design-tokens";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useEffectEvent, useRef } from "react";
import { useThemeListener } from "../../../app/theme";
import type { KubernetesClient } from "../../../kubernetes/client";
import { type Exec, type ExecEnd, startExec } from "../../../kubernetes/streams";
import { colorsOf } from "./colors";
import { newLeaver } from "./leave";
import { openTerminal } from "./openTerminal";
import type { Shell } from "./shellError";
import "./terminal.css";

interface Props {
  client: KubernetesClient;
  shell: Shell;
  onOpen: () => void;
  onEnd: (end: ExecEnd) => void;
  /** The ID of the text that says how to leave by keyboard. */
  describedBy: string;
}

/** Screen shows a terminal, and runs a shell in it while it is mounted. */
export function Screen({ client, shell, onOpen, onEnd, describedBy }: Props) {
  const { namespace, pod, container, command } = shell;
  const host = useRef<HTMLDivElement>(null);
  const shown = useRef<Terminal>(undefined);
  const opened = useEffectEvent(onOpen);
  const ended = useEffectEvent(onEnd);

  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    const terminal = new Terminal({
      screenReaderMode: true,
      minimumContrastRatio: 4.5,
      fontFamily: "Monaco, Menlo, Consolas, 'Courier New', monospace",
      fontSize: 14,
      scrollback: 5000,
      theme: colorsOf(element),
    });
    shown.current = terminal;
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    openTerminal(terminal, element);
    terminal.attachCustomKeyEventHandler(newLeaver());
    fit.fit();
    terminal.focus();

    let exec: Exec | undefined;
    let left = false;
    const onFinish = (end: ExecEnd) => {
      if (left) return;
      terminal.options.disableStdin = true;
      terminal.options.cursorInactiveStyle = "none";
      ended(end);
    };
    const events = { onOpen: () => opened(), onOutput: (text: Uint8Array) => terminal.write(text), onEnd: onFinish };
    startExec(client, namespace, pod, { container, command: [command], tty: true }, events).then(
      (started) => {
        exec = started;
        if (left) return started.close();
        started.resize(terminal.cols, terminal.rows);
      },
      (error: unknown) => onFinish({ error: error instanceof Error ? error : new Error(String(error)) }),
    );
    terminal.onData((input) => exec?.write(input));
    terminal.onBinary((input) => exec?.write(Uint8Array.from(input, (char) => char.charCodeAt(0))));
    terminal.onResize(({ cols, rows }) => exec?.resize(cols, rows));
    const resized = new ResizeObserver(() => {
      if (element.clientWidth > 0) fit.fit(); // not while another tab is shown
    });
    resized.observe(element);
    return () => {
      left = true;
      resized.disconnect();
      exec?.close();
      terminal.dispose();
    };
  }, [client, namespace, pod, container, command]);

  useThemeListener(() => {
    if (shown.current !== undefined && host.current !== null) shown.current.options.theme = colorsOf(host.current);
  });

  return (
    <div
      ref={host}
      className="pod-terminal"
      role="group"
      aria-label={`Terminal of container ${container}`}
      aria-describedby={describedBy}
      style={{
        background: tokens.colorBackgroundInputDefault,
        color: tokens.colorTextBodyDefault,
        borderColor: tokens.colorBorderInputDefault,
        outlineColor: tokens.colorBorderItemFocused,
      }}
    />
  );
}
