import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { formatStatus, statusType } from "./status";

/** Status shows a status of AWS or Kubernetes. With raw, its text is the API's, as for CloudFormation. */
export function Status({ status, raw = false }: { status: string | undefined; raw?: boolean }) {
  if (status === undefined) return <>-</>;
  return <StatusIndicator type={statusType(status)}>{raw ? status : formatStatus(status)}</StatusIndicator>;
}
