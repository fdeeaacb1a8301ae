import { CloudFormationClient, DeleteStackCommand } from "@aws-sdk/client-cloudformation";
import { useAwsChange } from "../../aws/queries";
import { DeleteModal } from "../../components/DeleteModal";
import { stackName } from "./stacks";

/** DeleteStack asks for the name of a stack, and deletes it. */
export function DeleteStack({ id, onDismiss }: { id: string; onDismiss: () => void }) {
  const remove = useAwsChange(CloudFormationClient, DeleteStackCommand, {
    attempt: () => `Delete stack ${stackName(id)}`,
    success: () => `Stack ${stackName(id)} is being deleted.`,
    quiet: true,
  });
  return (
    <DeleteModal
      what="stack"
      name={stackName(id)}
      onDismiss={onDismiss}
      onDelete={() => remove.mutateAsync({ StackName: id })}
    >
      Deleting a stack deletes all of its resources, except those with the deletion policy Retain.
    </DeleteModal>
  );
}
