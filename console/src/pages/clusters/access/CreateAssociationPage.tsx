import { CreatePodIdentityAssociationCommand, EKSClient } from "@aws-sdk/client-eks";
import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import { useState } from "react";
import { useNavigate, useParams } from "react-router";
import { useAwsChange } from "../../../aws/queries";
import { FormPage } from "../forms/FormPage";
import { TagFields } from "../forms/TagFields";
import { useSession } from "../../../session/SessionProvider";
import { useAddon } from "../addon/addons";
import { AssociationFields } from "./AssociationFields";
import { associationCommandsOf, associationProblems, associationRequestOf, newAssociation } from "./request";

/** CreateAssociationPage gives the pods of a service account a role. */
export default function CreateAssociationPage() {
  const { cluster: clusterName = "" } = useParams();
  const { session } = useSession();
  const navigate = useNavigate();
  const agent = useAddon(clusterName, "eks-pod-identity-agent");
  const [form, setForm] = useState(newAssociation);
  const [submitted, setSubmitted] = useState(false);
  const create = useAwsChange(EKSClient, CreatePodIdentityAssociationCommand, {
    attempt: () => "Create the Pod Identity association",
    success: (input) => `The role of ${input.namespace ?? ""}/${input.serviceAccount ?? ""} was associated.`,
    quiet: true,
  });
  const change = (next: Partial<typeof form>) => setForm((before) => ({ ...before, ...next }));
  const page = `/clusters/${encodeURIComponent(clusterName)}`;
  const submit = () => {
    setSubmitted(true);
    if (Object.keys(associationProblems(form)).length > 0) return;
    create.mutate(associationRequestOf(clusterName, form), { onSuccess: () => void navigate(`${page}/access`) });
  };
  return (
    <FormPage
      title="Create Pod Identity association"
      submitText="Create"
      pending={create.isPending}
      attempted="Create the Pod Identity association"
      error={create.error}
      commands={associationCommandsOf(clusterName, form, session.region)}
      cancelTo={`${page}/access`}
      onSubmit={submit}
    >
      {agent.error?.name === "ResourceNotFoundException" && (
        <Alert
          type="warning"
          header="The EKS Pod Identity Agent is not installed"
          action={
            <Button
              formAction="none"
              onClick={() => void navigate(`${page}/add-on-create?addon=eks-pod-identity-agent`)}
            >
              Install the add-on
            </Button>
          }
        >
          Pods on nodes get their credentials from it.
        </Alert>
      )}
      <Container header={<Header variant="h2">Pod Identity configuration</Header>}>
        <AssociationFields
          clusterName={clusterName}
          form={form}
          change={change}
          problems={submitted ? associationProblems(form) : {}}
        />
      </Container>
      <Container header={<Header variant="h2">Tags</Header>}>
        <TagFields tags={form.tags} onChange={(tags) => change({ tags })} />
      </Container>
    </FormPage>
  );
}
