import { EKSClient, type Nodegroup, UpdateNodegroupVersionCommand } from "@aws-sdk/client-eks";
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import FormField from "@cloudscape-design/components/form-field";
import Modal from "@cloudscape-design/components/modal";
import RadioGroup from "@cloudscape-design/components/radio-group";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { describeError } from "../../../aws/errors";
import { useAwsChange } from "../../../aws/queries";
import { ErrorAlert } from "../../../components/ErrorAlert";
import { CommandTabs } from "../../../components/ShowCommand";
import { useSession } from "../../../session/SessionProvider";
import { subjectOf } from "../forms/problems";
import { formatAmiType, minorVersions } from "./amiTypes";
import { subjects } from "./form";
import { useReleases, useTemplateVersions } from "./nodegroups";
import { versionCommandsOf, type VersionForm, versionRequestOf } from "./request";

interface Props {
  group: Nodegroup;
  /** The version of the cluster, which no node may be beyond. */
  clusterVersion: string | undefined;
  onDismiss: () => void;
}

/** UpdateVersion replaces the nodes of a group with nodes of another version, image or launch template version. */
export function UpdateVersion({ group, clusterVersion = "", onDismiss }: Props) {
  const { session } = useSession();
  const custom = group.amiType === "CUSTOM";
  const own = group.launchTemplate;
  const [form, setForm] = useState<VersionForm>({
    version: custom ? "" : clusterVersion,
    releaseVersion: "",
    templateVersion: custom ? (own?.version ?? "") : "",
    force: false,
  });
  const releases = useReleases(group.amiType, form.version);
  const { versions } = useTemplateVersions(own?.id);
  const update = useAwsChange(EKSClient, UpdateNodegroupVersionCommand, {
    attempt: (input) => `Update node group ${input.nodegroupName ?? ""}`,
    success: (input) => `Node group ${input.nodegroupName ?? ""} is being updated.`,
    quiet: true,
  });
  const change = (next: Partial<VersionForm>) => {
    if (update.isError) update.reset();
    setForm((before) => ({ ...before, ...next }));
  };
  const refused = subjectOf(subjects, update.error);
  const reason = update.error === null ? undefined : describeError(update.error).message;
  const newest = releases?.[0];
  const latest = { value: "", label: newest === undefined ? "Latest" : `Latest (${newest})` };
  const unchanged = { value: "", label: `Keep version ${own?.version ?? ""}` };
  return (
    <Modal
      visible
      size="large"
      header="Update node group version"
      closeAriaLabel="Close"
      onDismiss={onDismiss}
      footer={
        <Box float="right">
          <SpaceBetween direction="horizontal" size="xs">
            <Button variant="link" onClick={onDismiss}>
              Cancel
            </Button>
            <Button
              variant="primary"
              loading={update.isPending}
              onClick={() => update.mutate(versionRequestOf(form, group), { onSuccess: onDismiss })}
            >
              Update
            </Button>
          </SpaceBetween>
        </Box>
      }
    >
      <SpaceBetween size="m">
        {custom ? (
          <Alert type="info">
            The nodes run the AMI of the launch template. Choose the version of the template with another AMI.
          </Alert>
        ) : (
          <SpaceBetween size="m">
            <FormField label="Kubernetes version" description={`The node group has ${group.version ?? "-"}.`}>
              <Select
                options={minorVersions(group.version ?? "", clusterVersion).map((value) => ({ value, label: value }))}
                selectedOption={{ value: form.version, label: form.version }}
                onChange={({ detail }) => change({ version: detail.selectedOption.value ?? "", releaseVersion: "" })}
              />
            </FormField>
            <FormField
              label="AMI release version"
              description={`The node group has ${group.releaseVersion ?? "-"}, of ${formatAmiType(group.amiType)}.`}
              errorText={refused === "amiType" ? reason : undefined}
            >
              <Select
                options={[latest, ...(releases ?? []).map((value) => ({ value, label: value }))]}
                selectedOption={
                  form.releaseVersion === "" ? latest : { value: form.releaseVersion, label: form.releaseVersion }
                }
                onChange={({ detail }) => change({ releaseVersion: detail.selectedOption.value ?? "" })}
              />
            </FormField>
          </SpaceBetween>
        )}
        {own !== undefined && (
          <FormField
            label="Launch template version"
            description={`Of the launch template ${own.name ?? own.id ?? ""}.`}
            errorText={refused === "templateId" || refused === "templateVersion" ? reason : undefined}
          >
            <Select
              options={[
                ...(custom ? [] : [unchanged]),
                ...(versions ?? []).map(({ VersionNumber, VersionDescription, DefaultVersion }) => ({
                  value: String(VersionNumber),
                  label: String(VersionNumber),
                  description: VersionDescription,
                  labelTag: DefaultVersion === true ? "Default" : undefined,
                })),
              ]}
              selectedOption={
                form.templateVersion === ""
                  ? unchanged
                  : { value: form.templateVersion, label: form.templateVersion }
              }
              onChange={({ detail }) => change({ templateVersion: detail.selectedOption.value ?? "" })}
            />
          </FormField>
        )}
        <FormField label="Update strategy">
          <RadioGroup
            value={form.force ? "force" : "rolling"}
            items={[
              {
                value: "rolling",
                label: "Rolling update",
                description:
                  "Respects pod disruption budgets. The update fails if pods cannot be drained because of one.",
              },
              {
                value: "force",
                label: "Force update",
                description: "Does not respect pod disruption budgets: nodes are terminated whether pods left or not.",
              },
            ]}
            onChange={({ detail }) => change({ force: detail.value === "force" })}
          />
        </FormField>
        <ExpandableSection headerText="The same with other tools">
          <CommandTabs commands={versionCommandsOf(form, group, session.region)} />
        </ExpandableSection>
        {update.error !== null && (
          <ErrorAlert attempted={`Update node group ${group.nodegroupName ?? ""}`} error={update.error} />
        )}
      </SpaceBetween>
    </Modal>
  );
}
