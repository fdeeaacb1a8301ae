import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import CopyToClipboard from "@cloudscape-design/components/copy-to-clipboard";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Tabs from "@cloudscape-design/components/tabs";
import { useState } from "react";
import type { Command } from "../commands/command";

interface Props {
  /** The commands that print what the page shows, or do what its form does. */
  commands: Command[];
  /** The text of the button. */
  label?: string;
}

/** ShowCommand prints the commands that reproduce what a page shows. */
export function ShowCommand({ commands, label = "Show the command" }: Props) {
  const [visible, setVisible] = useState(false);
  return (
    <>
      <Button iconName="script" variant="normal" onClick={() => setVisible(true)}>
        {label}
      </Button>
      {visible && (
        <Modal
          visible
          size="large"
          header={commands.length > 1 ? "Commands" : "Command"}
          closeAriaLabel="Close"
          onDismiss={() => setVisible(false)}
        >
          <SpaceBetween size="s">
            <Box variant="p">
              The console reads and writes what these commands do. Point them at the daemon with{" "}
              <Box variant="code">eval &quot;$(coracle env)&quot;</Box> first.
            </Box>
            <CommandTabs commands={commands} />
          </SpaceBetween>
        </Modal>
      )}
    </>
  );
}

/** CommandTabs shows commands beside each other, such as those of aws and eksctl, with a button that copies them. */
export function CommandTabs({ commands }: { commands: Command[] }) {
  const [only] = commands;
  if (commands.length === 1 && only !== undefined) return <CommandText command={only} />;
  return (
    <Tabs
      ariaLabel="Commands"
      tabs={commands.map((command) => ({
        id: command.title.replaceAll(" ", "-"), // part of attributes that take no blank
        label: command.title,
        content: <CommandText command={command} />,
      }))}
    />
  );
}

function CommandText({ command }: { command: Command }) {
  return (
    <SpaceBetween size="xs">
      <pre className="command" tabIndex={0} aria-label={command.title}>
        {command.text}
      </pre>
      <CopyToClipboard
        copyButtonText="Copy"
        textToCopy={command.text}
        copySuccessText="Copied"
        copyErrorText="It could not be copied"
      />
    </SpaceBetween>
  );
}
