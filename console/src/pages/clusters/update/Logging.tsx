import type { Cluster } from "@aws-sdk/client-eks";
import { useState } from "react";
import { eksctlCommand } from "../../../commands/eksctl";
import { useSession } from "../../../session/SessionProvider";
import { logTypes, LogTypeToggles } from "../logTypes";
import { ConfigModal } from "./ConfigModal";
import { loggingChangeOf } from "./request";
import { enabledLogTypes } from "./template";

/** Logging chooses which logs of a control plane are sent to CloudWatch Logs. */
export function Logging({ cluster, onDismiss }: { cluster: Cluster; onDismiss: () => void }) {
  const { session } = useSession();
  const [wanted, setWanted] = useState(() => enabledLogTypes(cluster));
  const change = loggingChangeOf(
    cluster,
    new Set(wanted),
    logTypes.map(({ type }) => type),
  );
  const changed = (on: boolean) => change?.logging?.clusterLogging?.find(({ enabled }) => enabled === on)?.types;
  return (
    <ConfigModal
      cluster={cluster}
      title="Manage logging"
      what="the logging"
      change={change}
      after={{ logging: { clusterLogging: [{ types: wanted, enabled: true }] } }}
      eksctl={eksctlCommand(
        "utils update-cluster-logging",
        { cluster: cluster.name, "enable-types": changed(true), "disable-types": changed(false), approve: true },
        session.region,
      )}
      onDismiss={onDismiss}
    >
      <LogTypeToggles chosen={wanted} onChange={setWanted} />
    </ConfigModal>
  );
}
