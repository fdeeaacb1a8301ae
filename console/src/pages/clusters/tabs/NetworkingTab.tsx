import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import { useState } from "react";
import { Copyable } from "../../../components/Copyable";
import type { TabProps } from "../tab";
import { EndpointAccess } from "../update/EndpointAccess";
import { RemoteNetworks } from "../update/RemoteNetworks";
import { VpcResources } from "../update/VpcResources";

const cidrsOf = (networks: { cidrs?: string[] }[] | undefined) => networks?.flatMap(({ cidrs }) => cidrs ?? []);

/** NetworkingTab shows the part of the VPC that a cluster is in, and who reaches its endpoint. */
export default function NetworkingTab({ cluster }: TabProps) {
  const [managing, setManaging] = useState("");
  const dismiss = () => setManaging("");
  const vpc = cluster.resourcesVpcConfig;
  const remote = cluster.remoteNetworkConfig;
  const network = cluster.kubernetesNetworkConfig;
  const several = (ids: string[] | undefined, what: string) =>
    ids === undefined || ids.length === 0 ? (
      "-"
    ) : (
      <>
        {ids.map((id) => (
          <div key={id}>
            <Copyable text={id} what={what} />
          </div>
        ))}
      </>
    );
  const access =
    vpc?.endpointPublicAccess === true
      ? vpc.endpointPrivateAccess === true
        ? "Public and private"
        : "Public"
      : "Private";
  return (
    <>
    <Container
      header={
        <Header
          variant="h2"
          actions={
            <ButtonDropdown
              items={[
                { id: "endpoint", text: "Endpoint access" },
                { id: "vpc", text: "VPC resources" },
                { id: "remote", text: "Remote networks" },
              ]}
              onItemClick={({ detail }) => setManaging(detail.id)}
            >
              Manage
            </ButtonDropdown>
          }
        >
          Networking
        </Header>
      }
    >
      <KeyValuePairs
        columns={3}
        items={[
          { label: "VPC", value: <Copyable text={vpc?.vpcId} what="VPC" /> },
          { label: "Cluster IP address family", value: network?.ipFamily === "ipv6" ? "IPv6" : "IPv4" },
          {
            label: "Service IP address range",
            value: network?.serviceIpv4Cidr ?? network?.serviceIpv6Cidr ?? "-",
          },
          { label: "Subnets", value: several(vpc?.subnetIds, "subnet") },
          {
            label: "Cluster security group",
            value: <Copyable text={vpc?.clusterSecurityGroupId} what="cluster security group" />,
          },
          { label: "Additional security groups", value: several(vpc?.securityGroupIds, "security group") },
          { label: "API server endpoint access", value: access },
          {
            label: "Public access source allowlist",
            value: several(vpc?.endpointPublicAccess === true ? vpc.publicAccessCidrs : [], "source"),
          },
          { label: "Remote node networks", value: several(cidrsOf(remote?.remoteNodeNetworks), "block") },
          { label: "Remote pod networks", value: several(cidrsOf(remote?.remotePodNetworks), "block") },
        ]}
      />
    </Container>
    {managing === "endpoint" && <EndpointAccess cluster={cluster} onDismiss={dismiss} />}
    {managing === "vpc" && <VpcResources cluster={cluster} onDismiss={dismiss} />}
    {managing === "remote" && <RemoteNetworks cluster={cluster} onDismiss={dismiss} />}
    </>
  );
}
