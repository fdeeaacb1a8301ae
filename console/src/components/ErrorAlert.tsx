import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import { describeError, isDenied } from "../aws/errors";

/** ErrorAlert says what was attempted, why it failed, and how to try again. */
export function ErrorAlert({ attempted, error, retry }: { attempted: string; error: unknown; retry?: () => void }) {
  const { code, message } = describeError(error);
  return (
    <Alert
      type={isDenied(error) ? "warning" : "error"}
      header={code === "" ? `${attempted} failed` : `${attempted} failed: ${code}`}
      action={retry && <Button onClick={retry}>Retry</Button>}
    >
      {message}
    </Alert>
  );
}
