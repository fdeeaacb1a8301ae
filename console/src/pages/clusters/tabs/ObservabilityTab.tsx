import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { useState } from "react";
import { AppLink } from "../../../components/AppLink";
import { logTypes } from "../logTypes";
import type { TabProps } from "../tab";
import { Logging } from "../update/Logging";
import { enabledLogTypes } from "../update/template";
import { UpgradeInsights } from "../update/UpgradeInsights";
import { ControlPlaneUsage } from "./ControlPlaneUsage";

/** ObservabilityTab leads to the logs of a control plane, and says what stands in the way of an upgrade. */
export default function ObservabilityTab({ cluster, name }: TabProps) {
  const [managing, setManaging] = useState(false);
  const on = new Set(enabledLogTypes(cluster));
  const group = encodeURIComponent(`/aws/eks/${name}/cluster`);
  return (
    <SpaceBetween size="l">
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
        items={logTypes}
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
      <UpgradeInsights name={name} />
      {managing && <Logging cluster={cluster} onDismiss={() => setManaging(false)} />}
    </SpaceBetween>
  );
}
