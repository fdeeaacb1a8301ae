import { useMemo } from "react";
import { kubectlCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { type Column, ResourceTable } from "../../components/ResourceTable";
import { Status } from "../../components/Status";
import { Time } from "../../components/Time";
import { nodes } from "../../kubernetes/objects";
import { useWatch } from "../../kubernetes/watch";
import { objectAddress } from "../resources/address";
import { nodegroupAddress } from "./addresses";
import { type Node, nodeStatus } from "./nodes";

const nodegroupLabel = "eks.amazonaws.com/nodegroup";

const columnsOf = (cluster: string): Column<Node>[] => [
  {
    id: "name",
    header: "Node name",
    text: (n) => n.metadata.name,
    cell: (n) => <AppLink to={objectAddress(cluster, nodes, n.metadata)}>{n.metadata.name}</AppLink>,
    width: 280,
  },
  {
    id: "type",
    header: "Instance type",
    text: (n) => n.metadata.labels?.["node.kubernetes.io/instance-type"] ?? "-",
    width: 140,
  },
  {
    id: "group",
    header: "Node group",
    text: (n) => n.metadata.labels?.[nodegroupLabel] ?? "",
    cell: (n) => {
      const group = n.metadata.labels?.[nodegroupLabel];
      return group === undefined ? "-" : <AppLink to={nodegroupAddress(cluster, group)}>{group}</AppLink>;
    },
    width: 160,
  },
  {
    id: "zone",
    header: "Availability Zone",
    text: (n) => n.metadata.labels?.["topology.kubernetes.io/zone"] ?? "-",
    width: 160,
  },
  { id: "version", header: "Kubelet version", text: (n) => n.status?.nodeInfo?.kubeletVersion ?? "-", width: 180 },
  {
    id: "created",
    header: "Created",
    text: (n) => n.metadata.creationTimestamp,
    cell: (n) => <Time at={n.metadata.creationTimestamp} />,
    width: 150,
  },
  { id: "status", header: "Status", text: nodeStatus, cell: (n) => <Status status={nodeStatus(n)} raw />, width: 190 },
];

interface Props {
  /** The name of the cluster. */
  name: string;
  /** The node group whose nodes are listed, instead of all. */
  nodegroup?: string;
}

/** NodesTable follows the nodes of a cluster, or of a node group. */
export function NodesTable({ name, nodegroup }: Props) {
  const labelSelector = nodegroup === undefined ? undefined : `${nodegroupLabel}=${nodegroup}`;
  const { items, loading, error } = useWatch<Node>(name, nodes, undefined, { labelSelector });
  const columns = useMemo(() => columnsOf(name), [name]);
  const words = labelSelector === undefined ? [] : ["-l", labelSelector];
  return (
    <ResourceTable
      title="Nodes"
      nouns={["node", "nodes"]}
      items={loading ? undefined : items}
      columns={columns}
      keyOf={(n) => n.metadata.uid}
      nameOf={(n) => n.metadata.name}
      error={error}
      commands={[kubectlCommand(name, "get", "nodes", "-o", "wide", ...words)]}
    />
  );
}
