import {
  type Addon,
  type AddonInfo,
  CreateAddonCommand,
  DescribeUpdateCommand,
  EKSClient,
  type PodIdentityAssociation,
  type ResolveConflicts,
  type Update,
  UpdateAddonCommand,
} from "@aws-sdk/client-eks";
import Alert from "@cloudscape-design/components/alert";
import { useState } from "react";
import { useNavigate, useParams, useSearchParams } from "react-router";
import { useAws, useAwsChange } from "../../../aws/queries";
import { ErrorAlert } from "../../../components/ErrorAlert";
import { FormPage } from "../forms/FormPage";
import { Loading } from "../../../components/Loading";
import { useSession } from "../../../session/SessionProvider";
import { useCluster } from "../clusters";
import { AddonFields } from "./AddonFields";
import { useAddon, useAddonAssociations, useAddonVersions } from "./addons";
import { commandsOf, createRequestOf, type Form, formOf, problemsOf, updateRequestOf, wantedBy } from "./request";

/**
 * EditAddonPage updates an add-on. The address may name an update that has failed, which is tried again, and how
 * conflicts are resolved: ?retry=ID&resolveConflicts=OVERWRITE.
 */
export default function EditAddonPage() {
  const { cluster: name = "", addon: addonName = "" } = useParams();
  const [query] = useSearchParams();
  const updateId = query.get("retry") ?? "";
  const cluster = useCluster(name);
  const addon = useAddon(name, addonName);
  const info = useAddonVersions(cluster.data?.cluster?.version, addonName);
  const associations = useAddonAssociations(name, addon.data?.addon?.addonArn);
  const retried = useAws(
    EKSClient,
    DescribeUpdateCommand,
    { name, addonName, updateId },
    { poll: false, enabled: updateId !== "" },
  );
  const failed = cluster.error ?? addon.error ?? info.error ?? associations.error ?? retried.error;
  if (failed !== null) return <ErrorAlert attempted={`Describe add-on ${addonName}`} error={failed} />;
  const ready = updateId === "" || retried.data !== undefined;
  if (!ready || addon.data?.addon === undefined || info.data === undefined || associations.data === undefined) {
    return <Loading what={`add-on ${addonName}`} />;
  }
  return (
    <EditAddon
      clusterName={name}
      addon={addon.data.addon}
      info={info.data[0] ?? { addonName }}
      associations={associations.data}
      retried={retried.data?.update}
      resolveConflicts={(query.get("resolveConflicts") ?? "NONE") as ResolveConflicts}
    />
  );
}

interface Props {
  clusterName: string;
  addon: Addon;
  info: AddonInfo;
  associations: PodIdentityAssociation[];
  retried: Update | undefined;
  resolveConflicts: ResolveConflicts;
}

function EditAddon({ clusterName, addon, info, associations, retried, resolveConflicts }: Props) {
  const { session } = useSession();
  const navigate = useNavigate();
  const [before] = useState(() => formOf(addon, associations));
  const [form, setForm] = useState<Form>(() => ({ ...before, ...wantedBy(retried), resolveConflicts }));
  const problems = problemsOf(form);
  const attempt = () => `Update add-on ${form.name}`;
  const success = () => `Add-on ${form.name} is being updated.`;
  const update = useAwsChange(EKSClient, UpdateAddonCommand, { attempt, success, quiet: true });
  const create = useAwsChange(EKSClient, CreateAddonCommand, { attempt, success, quiet: true });
  // What could not be created is created again, as AWS says: an update is for what there is.
  const again = addon.status === "CREATE_FAILED";
  const page = `/clusters/${encodeURIComponent(clusterName)}/add-ons/${encodeURIComponent(form.name)}`;
  const submit = () => {
    if (Object.keys(problems).length > 0) return;
    const onSuccess = () => void navigate(page);
    if (again) create.mutate(createRequestOf(clusterName, form), { onSuccess });
    else update.mutate(updateRequestOf(clusterName, form, before), { onSuccess });
  };
  return (
    <FormPage
      title={`Configure ${form.name}`}
      submitText="Save changes"
      pending={update.isPending || create.isPending}
      attempted={attempt()}
      error={update.error ?? create.error}
      commands={commandsOf(clusterName, form, session.region, again ? undefined : before)}
      cancelTo={page}
      onSubmit={submit}
    >
      {again && (
        <Alert type="info">
          The add-on could not be created. Save changes creates it again, with what is entered here.
        </Alert>
      )}
      {retried !== undefined && (
        <Alert type="info">The version and the configuration values are those of the update that has failed.</Alert>
      )}
      <AddonFields
        form={form}
        info={info}
        installed={addon.addonVersion ?? ""}
        change={(next) => setForm((all) => ({ ...all, ...next }))}
        problems={problems}
      />
    </FormPage>
  );
}
