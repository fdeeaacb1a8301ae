import { type Cluster, EKSClient, UpdateClusterConfigCommand } from "@aws-sdk/client-eks";
import type { ReactNode } from "react";
import { useAwsChange } from "../../../aws/queries";
import { awsCommand, type Command } from "../../../commands/command";
import { ChangeModal } from "../forms/ChangeModal";
import { useSession } from "../../../session/SessionProvider";
import type { Change } from "./request";
import { clusterTemplate } from "./template";

interface Props {
  cluster: Cluster;
  title: string;
  /** What is changed, in messages: "the endpoint access". */
  what: string;
  /** The change; undefined as long as there is none to make. */
  change: Change | undefined;
  /** The members of the cluster that are others after the change. */
  after: Partial<Cluster>;
  /** The same by eksctl, where it has that. */
  eksctl?: Command;
  onDismiss: () => void;
  children: ReactNode;
}

/** ConfigModal is a form that changes one thing of the configuration of a cluster. */
export function ConfigModal({ cluster, title, what, change, after, eksctl, onDismiss, children }: Props) {
  const { session } = useSession();
  const name = cluster.name ?? "";
  const update = useAwsChange(EKSClient, UpdateClusterConfigCommand, {
    attempt: () => `Update ${what} of cluster ${name}`,
    success: () => `Cluster ${name} is being updated: ${what}.`,
    quiet: true,
  });
  const input = { name, ...change };
  const commands = [
    awsCommand("eks", "update-cluster-config", input, session.region),
    ...(eksctl === undefined ? [] : [eksctl]),
    clusterTemplate({ ...cluster, ...after }),
  ];
  return (
    <ChangeModal
      title={title}
      submit="Save changes"
      disabled={change === undefined}
      pending={update.isPending}
      attempted={`Update ${what}`}
      error={update.error}
      commands={change === undefined ? [] : commands}
      onDismiss={onDismiss}
      onSubmit={() => update.mutate(input, { onSuccess: onDismiss })}
    >
      {children}
    </ChangeModal>
  );
}
