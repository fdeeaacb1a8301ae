import { DeleteFargateProfileCommand, EKSClient } from "@aws-sdk/client-eks";
import { useAwsChange } from "../../../aws/queries";
import { DeleteModal } from "../../../components/DeleteModal";

interface Props {
  cluster: string;
  name: string;
  onDismiss: () => void;
  /** OnDeleted is called once EKS deletes it. */
  onDeleted?: () => void;
}

/** DeleteFargateProfile asks for the name of a Fargate profile, and deletes it. */
export function DeleteFargateProfile({ cluster, name, onDismiss, onDeleted }: Props) {
  const remove = useAwsChange(EKSClient, DeleteFargateProfileCommand, {
    attempt: (input) => `Delete Fargate profile ${input.fargateProfileName ?? ""}`,
    success: (input) => `Fargate profile ${input.fargateProfileName ?? ""} is being deleted.`,
    quiet: true,
  });
  return (
    <DeleteModal
      what="Fargate profile"
      name={name}
      onDismiss={onDismiss}
      onDelete={() => remove.mutateAsync({ clusterName: cluster, fargateProfileName: name }).then(onDeleted)}
    >
      Pods that run by this profile are deleted.
    </DeleteModal>
  );
}
