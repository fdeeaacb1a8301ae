import { AssociateEncryptionConfigCommand, type Cluster, EKSClient } from "@aws-sdk/client-eks";
import { KMSClient, paginateListAliases } from "@aws-sdk/client-kms";
import Alert from "@cloudscape-design/components/alert";
import Autosuggest from "@cloudscape-design/components/autosuggest";
import FormField from "@cloudscape-design/components/form-field";
import { useState } from "react";
import { useAwsChange, useAwsPages } from "../../../aws/queries";
import { awsCommand } from "../../../commands/command";
import { eksctlCommand } from "../../../commands/eksctl";
import { useSession } from "../../../session/SessionProvider";
import { ChangeModal } from "../forms/ChangeModal";
import { clusterTemplate } from "./template";

const keyPattern = /^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:(key|alias)\/\S+$/;

/** SecretsEncryption has a cluster encrypt its Secrets with a KMS key, for good. */
export function SecretsEncryption({ cluster, onDismiss }: { cluster: Cluster; onDismiss: () => void }) {
  const { session } = useSession();
  const clusterName = cluster.name ?? "";
  const [keyArn, setKeyArn] = useState("");
  const aliases = useAwsPages(KMSClient, paginateListAliases, {}, (page) => page.Aliases);
  const associate = useAwsChange(EKSClient, AssociateEncryptionConfigCommand, {
    attempt: () => `Enable secrets encryption of cluster ${clusterName}`,
    success: () => `Secrets encryption of cluster ${clusterName} is being enabled.`,
    quiet: true,
  });
  const encryptionConfig = [{ resources: ["secrets"], provider: { keyArn } }];
  const input = { clusterName, encryptionConfig };
  const good = keyPattern.test(keyArn);
  const keys = (aliases.data ?? []).flatMap(({ AliasArn = "", AliasName = "", TargetKeyId }) =>
    TargetKeyId === undefined || AliasName.startsWith("alias/aws/")
      ? []
      : [{ value: AliasArn.replace(/[^:]*$/, `key/${TargetKeyId}`), description: AliasName }],
  );
  return (
    <ChangeModal
      title="Enable secrets encryption"
      submit="Enable"
      disabled={!good}
      pending={associate.isPending}
      attempted="Enable secrets encryption"
      error={associate.error}
      commands={
        good
          ? [
              awsCommand("eks", "associate-encryption-config", input, session.region),
              eksctlCommand(
                "utils enable-secrets-encryption",
                { cluster: clusterName, "key-arn": keyArn, "encrypt-existing-secrets": false, approve: true },
                session.region,
              ),
              clusterTemplate({ ...cluster, encryptionConfig }),
            ]
          : []
      }
      onDismiss={onDismiss}
      onSubmit={() => associate.mutate(input, { onSuccess: onDismiss })}
    >
      <Alert type="warning">
        Once enabled, secrets encryption cannot be disabled, and the KMS key cannot be changed. If the key is deleted,
        the cluster’s Secrets can no longer be read.
      </Alert>
      <FormField
        label="KMS key"
        description="A symmetric key for encryption and decryption, in the region of the cluster."
        errorText={
          aliases.error?.message ?? (keyArn === "" || good ? undefined : "Enter the ARN of a KMS key or alias.")
        }
      >
        <Autosuggest
          value={keyArn}
          options={keys}
          placeholder="Choose a key, or enter its ARN"
          empty="No key has an alias: enter an ARN."
          enteredTextLabel={(text) => `Use: "${text}"`}
          onChange={({ detail }) => setKeyArn(detail.value)}
        />
      </FormField>
    </ChangeModal>
  );
}
