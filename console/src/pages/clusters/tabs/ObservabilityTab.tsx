import { EKSClient, type LogType, UpdateClusterConfigCommand } from "@aws-sdk/client-eks";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import Toggle from "@cloudscape-design/components/toggle";
import { useState } from "react";
import { useAwsChange } from "../../../aws/queries";
import { awsCommand } from "../../../commands/command";
import { AppLink } from "../../../components/AppLink";
import { CommandTabs } from "../../../components/ShowCommand";
import { useSession } from "../../../session/SessionProvider";
import type { TabProps } from "../tab";
import { ControlPlaneUsage } from "./ControlPlaneUsage";

const types: { type: LogType; label: string; description: string }[] = [
  { type: "api", label: "API server", description: "Logs pertaining to API requests to the cluster." },
  { type: "audit", label: "Audit", description: "Logs pertaining to cluster access via the Kubernetes API." },
  { type: "authenticator", label: "Authenticator", description: "Logs pertaining to authentication requests." },
  { type: "controllerManager", label: "Controller manager", description: "Logs of the state of cluster controllers." },
  { type: "scheduler", label: "Scheduler", description: "Logs pertaining to scheduling decisions." },
];

/** ObservabilityTab shows which control plane logs a cluster has, and leads to them. */
export default function ObservabilityTab({ cluster, name }: TabProps) {
  const [managing, setManaging] = useState(false);
  const on = new Set(cluster.logging?.clusterLogging?.filter((l) => l.enabled === true).flatMap((l) => l.types ?? []));
  const group = encodeURIComponent(`/aws/eks/${name}/cluster`);
  return (
    <>
      <Table
        ariaLabels={{ tableLabel: "Control plane logs" }}
        header={
          <Header
            variant="h2"
            actions={<Button onClick={() => setManaging(true)}>Manage logging</Button>}
            description="Sent to CloudWatch Logs."
          >
            Control plane logs
          </Header>
        }
        items={types}
        columnDefinitions={[
          { id: "log", header: "Log type", cell: (t) => t.label, isRowHeader: true },
          { id: "description", header: "Description", cell: (t) => t.description },
          {
            id: "state",
            header: "State",
            cell: (t) => (
              <StatusIndicator type={on.has(t.type) ? "success" : "stopped"}>
                {on.has(t.type) ? "On" : "Off"}
              </StatusIndicator>
            ),
          },
        ]}
        footer={
          on.size > 0 && (
            <Container>
              <SpaceBetween direction="horizontal" size="l">
                <AppLink to={`/logs-insights?group=${group}`}>Query in Logs Insights</AppLink>
                <AppLink to={`/live-tail?group=${group}`}>Follow in Live Tail</AppLink>
              </SpaceBetween>
            </Container>
          )
        }
      />
      <ControlPlaneUsage name={name} />
      {managing && <ManageLogging name={name} on={on} onDismiss={() => setManaging(false)} />}
    </>
  );
}

function ManageLogging({ name, on, onDismiss }: { name: string; on: Set<LogType>; onDismiss: () => void }) {
  const { session } = useSession();
  const [wanted, setWanted] = useState(on);
  const update = useAwsChange(EKSClient, UpdateClusterConfigCommand, {
    attempt: () => `Update the logging of cluster ${name}`,
    success: () => `The logging of cluster ${name} is being updated.`,
  });
  const changed = (enabled: boolean) => ({
    types: types
      .map(({ type }) => type)
      .filter((type) => wanted.has(type) === enabled && on.has(type) !== enabled),
    enabled,
  });
  const input = {
    name,
    logging: { clusterLogging: [changed(true), changed(false)].filter((c) => c.types.length > 0) },
  };
  return (
    <Modal
      visible
      header="Manage logging"
      closeAriaLabel="Close"
      onDismiss={onDismiss}
      footer={
        <Box float="right">
          <SpaceBetween direction="horizontal" size="xs">
            <Button variant="link" onClick={onDismiss}>
              Cancel
            </Button>
            <Button
              variant="primary"
              disabled={input.logging.clusterLogging.length === 0}
              loading={update.isPending}
              onClick={() => update.mutate(input, { onSettled: onDismiss })}
            >
              Save changes
            </Button>
          </SpaceBetween>
        </Box>
      }
    >
      <SpaceBetween size="m">
        {types.map(({ type, label, description }) => (
          <Toggle
            key={type}
            checked={wanted.has(type)}
            description={description}
            onChange={({ detail }) =>
              setWanted((before) => new Set(detail.checked ? [...before, type] : [...before].filter((t) => t !== type)))
            }
          >
            {label}
          </Toggle>
        ))}
        <CommandTabs commands={[awsCommand("eks", "update-cluster-config", input, session.region)]} />
      </SpaceBetween>
    </Modal>
  );
}
