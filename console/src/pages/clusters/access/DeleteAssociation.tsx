import {
  DeletePodIdentityAssociationCommand,
  EKSClient,
  type PodIdentityAssociationSummary,
} from "@aws-sdk/client-eks";
import { useAwsChange } from "../../../aws/queries";
import { awsCommand } from "../../../commands/command";
import { eksctlCommand } from "../../../commands/eksctl";
import { DeleteModal } from "../../../components/DeleteModal";
import { useSession } from "../../../session/SessionProvider";

interface Props {
  association: PodIdentityAssociationSummary;
  onDismiss: () => void;
  onDeleted?: () => void;
}

/** DeleteAssociation asks whether a service account loses its role, and deletes the association. */
export function DeleteAssociation({ association, onDismiss, onDeleted }: Props) {
  const { session } = useSession();
  const { clusterName = "", associationId = "", namespace = "", serviceAccount = "" } = association;
  const input = { clusterName, associationId };
  const remove = useAwsChange(EKSClient, DeletePodIdentityAssociationCommand, {
    attempt: () => `Delete association ${associationId}`,
    success: () => `The association of ${namespace}/${serviceAccount} was deleted.`,
    quiet: true,
  });
  const options = { cluster: clusterName, namespace, "service-account-name": serviceAccount };
  return (
    <DeleteModal
      what="Pod Identity association"
      name={`${namespace}/${serviceAccount}`}
      word="delete"
      onDismiss={onDismiss}
      onDelete={() => remove.mutateAsync(input, { onSuccess: onDeleted })}
      commands={[
        awsCommand("eks", "delete-pod-identity-association", input, session.region),
        eksctlCommand("delete podidentityassociation", options, session.region),
      ]}
    >
      Pods of the service account that start from now on have no credentials. The role itself stays.
    </DeleteModal>
  );
}
