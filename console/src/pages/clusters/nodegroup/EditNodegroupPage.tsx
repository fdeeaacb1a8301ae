import { EKSClient, type Nodegroup, UpdateNodegroupConfigCommand } from "@aws-sdk/client-eks";
import Alert from "@cloudscape-design/components/alert";
import ContentLayout from "@cloudscape-design/components/content-layout";
import Header from "@cloudscape-design/components/header";
import { useState } from "react";
import { useNavigate, useParams } from "react-router";
import { describeError } from "../../../aws/errors";
import { useAwsChange } from "../../../aws/queries";
import { ErrorAlert } from "../../../components/ErrorAlert";
import { Loading } from "../../../components/Loading";
import { useSession } from "../../../session/SessionProvider";
import { nodegroupAddress } from "../addresses";
import { FormPage } from "../forms/FormPage";
import { type Problems, subjectOf } from "../forms/problems";
import { type Form, type Settings, settingsProblems, subjects } from "./form";
import { useNodegroup } from "./nodegroups";
import { configCommandsOf, configRequestOf, settingsOf } from "./request";
import { LabelFields, RepairFields, ScalingFields, TaintFields, UpdateFields } from "./SettingsFields";

/** EditNodegroupPage changes what can be changed of a node group without new nodes. */
export default function EditNodegroupPage() {
  const { cluster = "", nodegroup: name = "" } = useParams();
  const { data, error, refetch } = useNodegroup(cluster, name);
  if (data?.nodegroup !== undefined) return <EditNodegroup group={data.nodegroup} cluster={cluster} name={name} />;
  if (error === null) return <Loading what={`node group ${name}`} />;
  return (
    <ContentLayout header={<Header variant="h1">Edit node group: {name}</Header>}>
      <ErrorAlert attempted={`Describe node group ${name}`} error={error} retry={() => void refetch()} />
    </ContentLayout>
  );
}

function EditNodegroup({ group, cluster, name }: { group: Nodegroup; cluster: string; name: string }) {
  const { session } = useSession();
  const navigate = useNavigate();
  const [before] = useState(() => settingsOf(group)); // what others change meanwhile is not undone
  const [form, setForm] = useState(before);
  const [submitted, setSubmitted] = useState(false);
  const update = useAwsChange(EKSClient, UpdateNodegroupConfigCommand, {
    attempt: (input) => `Update node group ${input.nodegroupName ?? ""}`,
    success: (input) => `Node group ${input.nodegroupName ?? ""} is being updated.`,
    quiet: true,
  });
  const change = (next: Partial<Settings>) => {
    if (update.isError) update.reset();
    setForm((now) => ({ ...now, ...next }));
  };
  const request = configRequestOf(before, form, cluster, name);
  const problems: Problems<Form> = submitted ? settingsProblems(form) : {};
  const refused = subjectOf(subjects, update.error);
  if (refused !== undefined) problems[refused] = describeError(update.error).message;
  const submit = () => {
    setSubmitted(true);
    if (request === undefined || Object.keys(settingsProblems(form)).length > 0) return;
    update.mutate(request, { onSuccess: () => void navigate(nodegroupAddress(cluster, name)) });
  };
  const props = { form, problems, change };
  return (
    <FormPage
      title={`Edit node group: ${name}`}
      submitText="Save changes"
      cancelTo={nodegroupAddress(cluster, name)}
      attempted={`Update node group ${name}`}
      error={update.error}
      pending={update.isPending}
      commands={request === undefined ? [] : configCommandsOf(request, group, form, session.region)}
      onSubmit={submit}
    >
      <ScalingFields {...props} />
      <LabelFields {...props} />
      <TaintFields {...props} />
      <UpdateFields {...props} />
      <RepairFields {...props} />
      {submitted && request === undefined && <Alert type="info">Nothing is changed.</Alert>}
    </FormPage>
  );
}
