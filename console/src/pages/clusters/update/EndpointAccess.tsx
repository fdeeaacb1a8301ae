import type { Cluster } from "@aws-sdk/client-eks";
import Alert from "@cloudscape-design/components/alert";
import FormField from "@cloudscape-design/components/form-field";
import RadioGroup from "@cloudscape-design/components/radio-group";
import Textarea from "@cloudscape-design/components/textarea";
import { useState } from "react";
import { eksctlCommand } from "../../../commands/eksctl";
import { useSession } from "../../../session/SessionProvider";
import { ConfigModal } from "./ConfigModal";
import { endpointAccessOf, endpointChangeOf, endpointProblem } from "./request";

const modes = [
  {
    value: "public",
    label: "Public",
    description:
      "The cluster endpoint is accessible from outside of your VPC. Worker node traffic will leave your VPC to " +
      "connect to the endpoint.",
  },
  {
    value: "both",
    label: "Public and private",
    description:
      "The cluster endpoint is accessible from outside of your VPC. Worker node traffic to the endpoint will stay " +
      "within your VPC.",
  },
  {
    value: "private",
    label: "Private",
    description:
      "The cluster endpoint is only accessible through your VPC. Worker node traffic to the endpoint will stay " +
      "within your VPC.",
  },
];

/** EndpointAccess changes who reaches the API server of a cluster. */
export function EndpointAccess({ cluster, onDismiss }: { cluster: Cluster; onDismiss: () => void }) {
  const { session } = useSession();
  const [before] = useState(() => endpointAccessOf(cluster));
  const [access, setAccess] = useState(before);
  const mode = access.publicAccess ? (access.privateAccess ? "both" : "public") : "private";
  const problem = endpointProblem(access);
  const change = problem === undefined ? endpointChangeOf(before, access) : undefined;
  const vpc = change?.resourcesVpcConfig;
  return (
    <ConfigModal
      cluster={cluster}
      title="Manage endpoint access"
      what="the endpoint access"
      change={change}
      after={{ resourcesVpcConfig: { ...cluster.resourcesVpcConfig, ...vpc } }}
      eksctl={eksctlCommand(
        "utils update-cluster-vpc-config",
        {
          cluster: cluster.name,
          "public-access": String(access.publicAccess),
          "private-access": String(access.privateAccess),
          "public-access-cidrs": vpc?.publicAccessCidrs,
          approve: true,
        },
        session.region,
      )}
      onDismiss={onDismiss}
    >
      <FormField label="Cluster endpoint access">
        <RadioGroup
          value={mode}
          items={modes}
          onChange={({ detail: { value } }) =>
            setAccess({ ...access, publicAccess: value !== "private", privateAccess: value !== "public" })
          }
        />
      </FormField>
      {access.publicAccess ? (
        <FormField label="Public access source allowlist" description="CIDR blocks, one a line." errorText={problem}>
          <Textarea
            rows={3}
            value={access.cidrs.join("\n")}
            placeholder="0.0.0.0/0"
            onChange={({ detail }) => setAccess({ ...access, cidrs: detail.value.split("\n") })}
          />
        </FormField>
      ) : (
        <Alert type="warning">
          Without public access, kubectl and pages of this console that show Kubernetes objects no longer reach the
          cluster from outside of its VPC.
        </Alert>
      )}
    </ConfigModal>
  );
}
