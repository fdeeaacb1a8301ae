import {
  DescribePodIdentityAssociationCommand,
  EKSClient,
  type PodIdentityAssociation,
  UpdatePodIdentityAssociationCommand,
} from "@aws-sdk/client-eks";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import ContentLayout from "@cloudscape-design/components/content-layout";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { useNavigate, useParams } from "react-router";
import { useAws, useAwsChange } from "../../../aws/queries";
import { awsCommand } from "../../../commands/command";
import { Copyable } from "../../../components/Copyable";
import { ErrorAlert } from "../../../components/ErrorAlert";
import { ChangeModal } from "../forms/ChangeModal";
import { Loading } from "../../../components/Loading";
import { ResourceTags } from "../ResourceTags";
import { ShowCommand } from "../../../components/ShowCommand";
import { Time } from "../../../components/Time";
import { useSession } from "../../../session/SessionProvider";
import { AssociationFields } from "./AssociationFields";
import { DeleteAssociation } from "./DeleteAssociation";
import { associationCommandsOf, associationFormOf, associationProblems, associationUpdateOf } from "./request";

/** AssociationPage is the page of a pod identity association. */
export default function AssociationPage() {
  const { cluster: clusterName = "", association: associationId = "" } = useParams();
  const of = { clusterName, associationId };
  const navigate = useNavigate();
  const { session } = useSession();
  const { data, error, refetch } = useAws(EKSClient, DescribePodIdentityAssociationCommand, of);
  const [editing, setEditing] = useState(false);
  const [deleting, setDeleting] = useState(false);
  const association = data?.association;
  const failure = error !== null && (
    <ErrorAlert attempted={`Describe association ${associationId}`} error={error} retry={() => void refetch()} />
  );
  if (association === undefined) {
    if (error === null) return <Loading what={`association ${associationId}`} />;
    return <ContentLayout header={<Header variant="h1">{associationId}</Header>}>{failure}</ContentLayout>;
  }
  const owned = association.ownerArn !== undefined;
  const reason = "An add-on owns the association: edit the add-on.";
  const { namespace = "", serviceAccount = "", policy } = association;
  return (
    <ContentLayout
      header={
        <Header
          variant="h1"
          actions={
            <SpaceBetween direction="horizontal" size="xs">
              <ShowCommand
                commands={[awsCommand("eks", "describe-pod-identity-association", of, session.region)]}
              />
              <Button disabled={owned} disabledReason={reason} onClick={() => setDeleting(true)}>
                Delete
              </Button>
              <Button disabled={owned} disabledReason={reason} onClick={() => setEditing(true)}>
                Edit
              </Button>
            </SpaceBetween>
          }
        >
          {`${namespace}/${serviceAccount}`}
        </Header>
      }
    >
      <SpaceBetween size="l">
        {failure}
        <Container header={<Header variant="h2">Details</Header>}>
          <KeyValuePairs
            columns={3}
            items={[
              { label: "Kubernetes namespace", value: namespace },
              { label: "Kubernetes service account", value: serviceAccount },
              { label: "Association ID", value: <Copyable text={associationId} what="association ID" /> },
              { label: "IAM role ARN", value: <Copyable text={association.roleArn} what="IAM role ARN" /> },
              {
                label: "Target IAM role ARN",
                value: <Copyable text={association.targetRoleArn} what="target role ARN" />,
              },
              { label: "External ID", value: <Copyable text={association.externalId} what="external ID" /> },
              { label: "Session tags", value: association.disableSessionTags === true ? "Disabled" : "Enabled" },
              { label: "Owner", value: association.ownerArn ?? "-" },
              { label: "Created", value: <Time at={association.createdAt} /> },
              { label: "Modified", value: <Time at={association.modifiedAt} /> },
              {
                label: "Association ARN",
                value: <Copyable text={association.associationArn} what="association ARN" />,
              },
            ]}
          />
        </Container>
        {policy !== undefined && (
          <Container header={<Header variant="h2">Session policy</Header>}>
            <pre className="command" tabIndex={0} aria-label="Session policy">
              {policy}
            </pre>
          </Container>
        )}
        <ResourceTags what="association" arn={association.associationArn} tags={association.tags} />
      </SpaceBetween>
      {editing && <EditAssociation association={association} onDismiss={() => setEditing(false)} />}
      {deleting && (
        <DeleteAssociation
          association={association}
          onDismiss={() => setDeleting(false)}
          onDeleted={() => void navigate(`/clusters/${encodeURIComponent(clusterName)}/access`)}
        />
      )}
    </ContentLayout>
  );
}

interface EditProps {
  association: PodIdentityAssociation;
  onDismiss: () => void;
}

function EditAssociation({ association, onDismiss }: EditProps) {
  const { session } = useSession();
  const { clusterName = "", associationId = "" } = association;
  const [before] = useState(() => associationFormOf(association));
  const [form, setForm] = useState(before);
  const update = useAwsChange(EKSClient, UpdatePodIdentityAssociationCommand, {
    attempt: () => `Update association ${associationId}`,
    success: () => `Association ${associationId} was updated.`,
    quiet: true,
  });
  const problems = associationProblems(form);
  const input = associationUpdateOf(clusterName, associationId, form, before);
  return (
    <ChangeModal
      title="Edit Pod Identity association"
      submit="Save changes"
      disabled={input === undefined || Object.keys(problems).length > 0}
      pending={update.isPending}
      attempted={`Update association ${associationId}`}
      error={update.error}
      commands={input === undefined ? [] : associationCommandsOf(clusterName, form, session.region, input)}
      onDismiss={onDismiss}
      onSubmit={() => input !== undefined && update.mutate(input, { onSuccess: onDismiss })}
    >
      <AssociationFields
        fixed
        clusterName={clusterName}
        form={form}
        change={(next) => setForm((all) => ({ ...all, ...next }))}
        problems={problems}
      />
    </ChangeModal>
  );
}
