import { DeleteAddonCommand, EKSClient } from "@aws-sdk/client-eks";
import Checkbox from "@cloudscape-design/components/checkbox";
import { useState } from "react";
import { useAwsChange } from "../../../aws/queries";
import { awsCommand } from "../../../commands/command";
import { eksctlCommand } from "../../../commands/eksctl";
import { DeleteModal } from "../../../components/DeleteModal";
import { useSession } from "../../../session/SessionProvider";

interface Props {
  clusterName: string;
  addonName: string;
  onDismiss: () => void;
  onRemoved?: () => void;
}

/** RemoveAddon asks for the name of an add-on, and whether its objects stay, and removes it. */
export function RemoveAddon({ clusterName, addonName, onDismiss, onRemoved }: Props) {
  const { session } = useSession();
  const [preserve, setPreserve] = useState(false);
  const remove = useAwsChange(EKSClient, DeleteAddonCommand, {
    attempt: (input) => `Remove add-on ${input.addonName ?? ""}`,
    success: (input) => `Add-on ${input.addonName ?? ""} is being removed.`,
    quiet: true,
  });
  const input = { clusterName, addonName, preserve: preserve ? true : undefined };
  return (
    <DeleteModal
      what="add-on"
      name={addonName}
      onDismiss={onDismiss}
      onDelete={() => remove.mutateAsync(input, { onSuccess: onRemoved })}
      options={
        <Checkbox
          checked={preserve}
          description="EKS stops managing any settings for the add-on, but its software stays on the cluster."
          onChange={({ detail }) => setPreserve(detail.checked)}
        >
          Preserve on cluster
        </Checkbox>
      }
      commands={[
        awsCommand("eks", "delete-addon", input, session.region),
        eksctlCommand(
          "delete addon",
          { cluster: clusterName, name: addonName, preserve: input.preserve },
          session.region,
        ),
      ]}
    >
      {preserve
        ? "The add-on’s Kubernetes objects become self-managed."
        : "The add-on’s Kubernetes objects are removed from the cluster, too."}
    </DeleteModal>
  );
}
