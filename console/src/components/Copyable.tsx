import CopyToClipboard from "@cloudscape-design/components/copy-to-clipboard";

/** Copyable shows a text, such as an ARN, with a button that copies it. */
export function Copyable({ text, what }: { text: string | undefined; what: string }) {
  if (text === undefined || text === "") return <>-</>;
  return (
    <CopyToClipboard
      variant="inline"
      textToCopy={text}
      copyButtonAriaLabel={`Copy ${what}`}
      copySuccessText={`${what} copied`}
      copyErrorText={`${what} could not be copied`}
    />
  );
}
