import { DeleteNodegroupCommand, EKSClient } from "@aws-sdk/client-eks";
import { useAwsChange } from "../../../aws/queries";
import { DeleteModal } from "../../../components/DeleteModal";

interface Props {
  cluster: string;
  name: string;
  onDismiss: () => void;
  /** OnDeleted is called once EKS deletes it. */
  onDeleted?: () => void;
}

/** DeleteNodegroup asks for the name of a node group, and deletes it. */
export function DeleteNodegroup({ cluster, name, onDismiss, onDeleted }: Props) {
  const remove = useAwsChange(EKSClient, DeleteNodegroupCommand, {
    attempt: (input) => `Delete node group ${input.nodegroupName ?? ""}`,
    success: (input) => `Node group ${input.nodegroupName ?? ""} is being deleted.`,
    quiet: true,
  });
  return (
    <DeleteModal
      what="node group"
      name={name}
      onDismiss={onDismiss}
      onDelete={() => remove.mutateAsync({ clusterName: cluster, nodegroupName: name }).then(onDeleted)}
    >
      Its nodes are drained, and their instances terminated.
    </DeleteModal>
  );
}
