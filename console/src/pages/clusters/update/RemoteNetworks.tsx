import type { Cluster } from "@aws-sdk/client-eks";
import FormField from "@cloudscape-design/components/form-field";
import Textarea from "@cloudscape-design/components/textarea";
import { useState } from "react";
import { splitWords } from "../../identity/policies";
import { ConfigModal } from "./ConfigModal";
import { remoteNetworkChangeOf } from "./request";

/** RemoteNetworks changes the networks of hybrid nodes and of their pods. */
export function RemoteNetworks({ cluster, onDismiss }: { cluster: Cluster; onDismiss: () => void }) {
  const before = cluster.remoteNetworkConfig;
  const textOf = (networks: { cidrs?: string[] }[] | undefined) =>
    networks?.flatMap(({ cidrs }) => cidrs ?? []).join("\n") ?? "";
  const [nodes, setNodes] = useState(textOf(before?.remoteNodeNetworks));
  const [pods, setPods] = useState(textOf(before?.remotePodNetworks));
  const change = remoteNetworkChangeOf(cluster, splitWords(nodes), splitWords(pods));
  return (
    <ConfigModal
      cluster={cluster}
      title="Manage remote networks"
      what="the remote networks"
      change={change}
      after={{ remoteNetworkConfig: change?.remoteNetworkConfig ?? before }}
      onDismiss={onDismiss}
    >
      <FormField label="Remote node networks" description="CIDR blocks of hybrid nodes on premises, one a line.">
        <Textarea rows={3} value={nodes} onChange={({ detail }) => setNodes(detail.value)} />
      </FormField>
      <FormField label="Remote pod networks" description="CIDR blocks of the pods of hybrid nodes, one a line.">
        <Textarea rows={3} value={pods} onChange={({ detail }) => setPods(detail.value)} />
      </FormField>
    </ConfigModal>
  );
}
