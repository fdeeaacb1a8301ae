import { DeleteClusterCommand, EKSClient } from "@aws-sdk/client-eks";
import { useAwsChange } from "../../aws/queries";
import { DeleteModal } from "../../components/DeleteModal";

/** DeleteCluster asks for the name of a cluster, and deletes it. */
export function DeleteCluster({ name, onDismiss }: { name: string; onDismiss: () => void }) {
  const remove = useAwsChange(EKSClient, DeleteClusterCommand, {
    attempt: (input) => `Delete cluster ${input.name ?? ""}`,
    success: (input) => `Cluster ${input.name ?? ""} is being deleted.`,
    quiet: true,
  });
  return (
    <DeleteModal what="cluster" name={name} onDismiss={onDismiss} onDelete={() => remove.mutateAsync({ name })}>
      Delete its node groups and Fargate profiles first: EKS refuses to delete a cluster that has any. Volumes and load
      balancers that its workloads made stay, unless you delete these workloads before.
    </DeleteModal>
  );
}
