import type { Cluster } from "@aws-sdk/client-eks";
import Alert from "@cloudscape-design/components/alert";
import RadioGroup from "@cloudscape-design/components/radio-group";
import Toggle from "@cloudscape-design/components/toggle";
import { useState } from "react";
import { eksctlCommand } from "../../../commands/eksctl";
import { useSession } from "../../../session/SessionProvider";
import { ConfigModal } from "./ConfigModal";

interface Props {
  cluster: Cluster;
  onDismiss: () => void;
}

/** UpgradePolicy chooses what becomes of a cluster at the end of standard support. */
export function UpgradePolicy({ cluster, onDismiss }: Props) {
  const before = cluster.upgradePolicy?.supportType ?? "EXTENDED";
  const [supportType, setSupportType] = useState(before);
  const upgradePolicy = { supportType };
  return (
    <ConfigModal
      cluster={cluster}
      title="Manage upgrade policy"
      what="the upgrade policy"
      change={supportType === before ? undefined : { upgradePolicy }}
      after={{ upgradePolicy }}
      onDismiss={onDismiss}
    >
      <RadioGroup
        ariaLabel="Upgrade policy"
        value={supportType}
        items={[
          {
            value: "STANDARD",
            label: "Standard",
            description:
              "Supports the Kubernetes version for 14 months after the release date. There is no additional cost. " +
              "When standard support ends, your cluster is upgraded to the next version.",
          },
          {
            value: "EXTENDED",
            label: "Extended",
            description:
              "Supports the Kubernetes version for 26 months after the release date. The extended support period has " +
              "an additional hourly cost that begins after the standard support period ends.",
          },
        ]}
        onChange={({ detail }) => setSupportType(detail.value as typeof before)}
      />
    </ConfigModal>
  );
}

/** DeletionProtection keeps a cluster from being deleted by accident. */
export function DeletionProtection({ cluster, onDismiss }: Props) {
  const { session } = useSession();
  const before = cluster.deletionProtection === true;
  const [deletionProtection, set] = useState(before);
  return (
    <ConfigModal
      cluster={cluster}
      title="Manage deletion protection"
      what="the deletion protection"
      change={deletionProtection === before ? undefined : { deletionProtection }}
      after={{ deletionProtection }}
      eksctl={eksctlCommand(
        "utils deletion-protection",
        { name: cluster.name, enabled: String(deletionProtection) },
        session.region,
      )}
      onDismiss={onDismiss}
    >
      <Toggle
        checked={deletionProtection}
        description="The cluster cannot be deleted as long as this is on. Turn it off first to delete the cluster."
        onChange={({ detail }) => set(detail.checked)}
      >
        Deletion protection
      </Toggle>
    </ConfigModal>
  );
}

/** ZonalShift registers a cluster with Application Recovery Controller, which shifts traffic away from a zone. */
export function ZonalShift({ cluster, onDismiss }: Props) {
  const { session } = useSession();
  const before = cluster.zonalShiftConfig?.enabled === true;
  const [enabled, setEnabled] = useState(before);
  const zonalShiftConfig = { enabled };
  return (
    <ConfigModal
      cluster={cluster}
      title="Manage ARC zonal shift"
      what="the zonal shift"
      change={enabled === before ? undefined : { zonalShiftConfig }}
      after={{ zonalShiftConfig }}
      eksctl={eksctlCommand(
        "utils update-zonal-shift-config",
        { cluster: cluster.name, "enable-zonal-shift": String(enabled) },
        session.region,
      )}
      onDismiss={onDismiss}
    >
      <Toggle
        checked={enabled}
        description="Registers the cluster with Amazon Application Recovery Controller."
        onChange={({ detail }) => setEnabled(detail.checked)}
      >
        ARC zonal shift
      </Toggle>
    </ConfigModal>
  );
}

const modes = [
  {
    value: "CONFIG_MAP",
    label: "ConfigMap",
    description: "The cluster will source authenticated IAM principals only from the aws-auth ConfigMap.",
  },
  {
    value: "API_AND_CONFIG_MAP",
    label: "EKS API and ConfigMap",
    description:
      "The cluster will source authenticated IAM principals from both EKS access entry APIs and the aws-auth " +
      "ConfigMap.",
  },
  {
    value: "API",
    label: "EKS API",
    description: "The cluster will source authenticated IAM principals only from EKS access entry APIs.",
  },
];

/** ModeName returns what AWS's console calls an authentication mode: "EKS API and ConfigMap". */
export const modeName = (mode: string | undefined) => modes.find(({ value }) => value === mode)?.label ?? mode ?? "-";

/** AuthenticationMode changes where a cluster looks principals up: one step at a time, and never back. */
export function AuthenticationMode({ cluster, onDismiss }: Props) {
  const { session } = useSession();
  const before = cluster.accessConfig?.authenticationMode ?? "CONFIG_MAP";
  const [mode, setMode] = useState(before);
  const at = modes.findIndex(({ value }) => value === before);
  const accessConfig = { authenticationMode: mode };
  return (
    <ConfigModal
      cluster={cluster}
      title="Manage access"
      what="the authentication mode"
      change={mode === before ? undefined : { accessConfig }}
      after={{ accessConfig }}
      eksctl={eksctlCommand(
        "utils update-authentication-mode",
        { cluster: cluster.name, "authentication-mode": mode },
        session.region,
      )}
      onDismiss={onDismiss}
    >
      <RadioGroup
        ariaLabel="Cluster authentication mode"
        value={mode}
        items={modes.map((item, i) => ({ ...item, disabled: i < at || i > at + 1 }))}
        onChange={({ detail }) => setMode(detail.value as typeof before)}
      />
      {before !== "API" && (
        <Alert type="warning">
          This is one-way: from ConfigMap to EKS API and ConfigMap, and from there to EKS API. You cannot change back to
          a mode that you have left.
          {mode === "API" && " Principals that the aws-auth ConfigMap alone names lose their access, nodes included."}
        </Alert>
      )}
    </ConfigModal>
  );
}
