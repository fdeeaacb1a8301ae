import type { LogType } from "@aws-sdk/client-eks";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Toggle from "@cloudscape-design/components/toggle";

/** The logs of a control plane, as AWS's console describes them. */
export const logTypes: { type: LogType; label: string; description: string }[] = [
  { type: "api", label: "API server", description: "Logs pertaining to API requests to the cluster." },
  { type: "audit", label: "Audit", description: "Logs pertaining to cluster access via the Kubernetes API." },
  { type: "authenticator", label: "Authenticator", description: "Logs pertaining to authentication requests." },
  { type: "controllerManager", label: "Controller manager", description: "Logs of the state of cluster controllers." },
  { type: "scheduler", label: "Scheduler", description: "Logs pertaining to scheduling decisions." },
];

interface Props {
  chosen: LogType[];
  onChange: (chosen: LogType[]) => void;
}

/** LogTypeToggles choose the logs that a control plane sends to CloudWatch Logs. */
export function LogTypeToggles({ chosen, onChange }: Props) {
  return (
    <SpaceBetween size="m">
      {logTypes.map(({ type, label, description }) => (
        <Toggle
          key={type}
          checked={chosen.includes(type)}
          description={description}
          onChange={({ detail }) =>
            onChange(detail.checked ? [...chosen, type] : chosen.filter((other) => other !== type))
          }
        >
          {label}
        </Toggle>
      ))}
    </SpaceBetween>
  );
}
