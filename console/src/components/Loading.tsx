import Box from "@cloudscape-design/components/box";
import StatusIndicator from "@cloudscape-design/components/status-indicator";

/** Loading says what is on its way. */
export function Loading({ what }: { what: string }) {
  return (
    <Box textAlign="center" padding="xxl">
      <StatusIndicator type="loading">Loading {what}</StatusIndicator>
    </Box>
  );
}
