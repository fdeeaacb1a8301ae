import Button from "@cloudscape-design/components/button";
import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { useNavigate } from "react-router";
import { Copyable } from "../../../components/Copyable";
import { Time } from "../../../components/Time";
import { upgradePolicy } from "../clusters";
import { HealthIssues } from "../HealthIssues";
import type { TabProps } from "../tab";
import { SecretsEncryption } from "../update/SecretsEncryption";
import { DeletionProtection, UpgradePolicy, ZonalShift } from "../update/Settings";

/** OverviewTab shows what EKS keeps of a cluster itself, and what is wrong with it. */
export default function OverviewTab({ cluster, name }: TabProps) {
  const navigate = useNavigate();
  const [managing, setManaging] = useState("");
  const settings = { cluster, onDismiss: () => setManaging("") };
  const key = cluster.encryptionConfig?.[0]?.provider?.keyArn;
  const authority = cluster.certificateAuthority?.data;
  const issues = cluster.health?.issues ?? [];
  return (
    <SpaceBetween size="l">
      {issues.length > 0 && <HealthIssues title="Cluster health issues" issues={issues} />}
      <Container
        header={
          <Header
            variant="h2"
            actions={
              <Button
                disabled={cluster.status !== "ACTIVE"}
                onClick={() => void navigate(`/clusters/${encodeURIComponent(name)}/version-upgrade`)}
              >
                Upgrade version
              </Button>
            }
          >
            Details
          </Header>
        }
      >
        <KeyValuePairs
          columns={3}
          items={[
            { label: "API server endpoint", value: <Copyable text={cluster.endpoint} what="API server endpoint" /> },
            {
              label: "OpenID Connect provider URL",
              value: <Copyable text={cluster.identity?.oidc?.issuer} what="OpenID Connect provider URL" />,
            },
            { label: "Created", value: <Time at={cluster.createdAt} /> },
            { label: "Cluster IAM role ARN", value: <Copyable text={cluster.roleArn} what="Cluster IAM role ARN" /> },
            { label: "Cluster ARN", value: <Copyable text={cluster.arn} what="Cluster ARN" /> },
            { label: "Platform version", value: cluster.platformVersion ?? "-" },
            {
              label: "Certificate authority",
              value: <Copyable text={authority} what="Certificate authority" shown={`${authority?.slice(0, 32)}…`} />,
            },
          ]}
        />
      </Container>
      <Container
        header={
          <Header
            variant="h2"
            actions={
              <ButtonDropdown
                disabled={cluster.status !== "ACTIVE"}
                items={[
                  { id: "policy", text: "Upgrade policy" },
                  { id: "protection", text: "Deletion protection" },
                  {
                    id: "encryption",
                    text: "Secrets encryption",
                    disabled: key !== undefined,
                    disabledReason: "Once enabled, secrets encryption cannot be changed or disabled.",
                  },
                  { id: "shift", text: "ARC zonal shift" },
                ]}
                onItemClick={({ detail }) => setManaging(detail.id)}
              >
                Manage
              </ButtonDropdown>
            }
          >
            Settings
          </Header>
        }
      >
        <KeyValuePairs
          columns={3}
          items={[
            {
              label: "Secrets encryption",
              value: key === undefined ? "Not enabled" : <Copyable text={key} what="KMS key" />,
            },
            { label: "Upgrade policy", value: upgradePolicy(cluster) },
            { label: "Deletion protection", value: cluster.deletionProtection === true ? "On" : "Off" },
            { label: "ARC zonal shift", value: cluster.zonalShiftConfig?.enabled === true ? "Enabled" : "Disabled" },
          ]}
        />
      </Container>
      {managing === "policy" && <UpgradePolicy {...settings} />}
      {managing === "protection" && <DeletionProtection {...settings} />}
      {managing === "encryption" && <SecretsEncryption {...settings} />}
      {managing === "shift" && <ZonalShift {...settings} />}
    </SpaceBetween>
  );
}
