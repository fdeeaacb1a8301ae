import CopyToClipboard from "@cloudscape-design/components/copy-to-clipboard";

interface Props {
  text: string | undefined;
  /** What it is, in labels: "Cluster ARN". */
  what: string;
  /** What is shown of a text that is too long to be read. */
  shown?: string;
}

/** Copyable shows a text, such as an ARN, with a button that copies it. */
export function Copyable({ text, what, shown = text }: Props) {
  if (text === undefined || text === "") return <>-</>;
  return (
    <CopyToClipboard
      variant="inline"
      textToCopy={text}
      textToDisplay={shown}
      copyButtonAriaLabel={`Copy ${what}`}
      copySuccessText={`${what} copied`}
      copyErrorText={`${what} could not be copied`}
    />
  );
}
