import { DeleteAccessEntryCommand, EKSClient } from "@aws-sdk/client-eks";
import { useAwsChange } from "../../../aws/queries";
import { awsCommand } from "../../../commands/command";
import { eksctlCommand } from "../../../commands/eksctl";
import { DeleteModal } from "../../../components/DeleteModal";
import { useSession } from "../../../session/SessionProvider";

interface Props {
  clusterName: string;
  principalArn: string;
  onDismiss: () => void;
  onDeleted?: () => void;
}

/** DeleteAccessEntry asks whether a principal is no longer let in, and deletes its entry. */
export function DeleteAccessEntry({ clusterName, principalArn, onDismiss, onDeleted }: Props) {
  const { session } = useSession();
  const input = { clusterName, principalArn };
  const remove = useAwsChange(EKSClient, DeleteAccessEntryCommand, {
    attempt: () => `Delete the access entry of ${principalArn}`,
    success: () => `The access entry of ${principalArn} was deleted.`,
    quiet: true,
  });
  return (
    <DeleteModal
      what="access entry"
      name={principalArn}
      word="delete"
      onDismiss={onDismiss}
      onDelete={() => remove.mutateAsync(input, { onSuccess: onDeleted })}
      commands={[
        awsCommand("eks", "delete-access-entry", input, session.region),
        eksctlCommand("delete accessentry", { cluster: clusterName, "principal-arn": principalArn }, session.region),
      ]}
    >
      The principal can no longer log in to the cluster by this entry. Its access policies go with it.
    </DeleteModal>
  );
}
