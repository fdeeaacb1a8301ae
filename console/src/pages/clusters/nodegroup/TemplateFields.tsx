import { EC2Client, paginateDescribeLaunchTemplates } from "@aws-sdk/client-ec2";
import Box from "@cloudscape-design/components/box";
import Checkbox from "@cloudscape-design/components/checkbox";
import Container from "@cloudscape-design/components/container";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useAwsPages } from "../../../aws/queries";
import type { Problems } from "../forms/problems";
import type { Form } from "./form";
import { useTemplateVersions } from "./nodegroups";

interface Props {
  form: Form;
  problems: Problems<Form>;
  change: (next: Partial<Form>) => void;
}

/** TemplateFields asks for the launch template of a node group, and for its version. */
export function TemplateFields({ form, problems, change }: Props) {
  const templates = useAwsPages(EC2Client, paginateDescribeLaunchTemplates, {}, (page) => page.LaunchTemplates);
  const { versions, isPending } = useTemplateVersions(form.templateId);
  const chosen = templates.data?.find(({ LaunchTemplateId }) => LaunchTemplateId === form.templateId);
  return (
    <Container
      header={
        <Header
          variant="h2"
          description="The launch template of a node group cannot be changed later; its version can."
        >
          Launch template
        </Header>
      }
    >
      <SpaceBetween size="m">
        <Checkbox
          checked={form.useTemplate}
          description="Configure this node group using an EC2 launch template."
          onChange={({ detail }) =>
            change({ useTemplate: detail.checked, ...(!detail.checked && { templateId: "", templateVersion: "" }) })
          }
        >
          Use launch template
        </Checkbox>
        {form.useTemplate && (
          <SpaceBetween size="m">
            <FormField label="Launch template name" errorText={problems.templateId}>
              <Select
                filteringType="auto"
                placeholder="Select launch template"
                empty="No launch templates"
                statusType={templates.isPending ? "loading" : "finished"}
                selectedOption={
                  form.templateId === ""
                    ? null
                    : { value: form.templateId, label: chosen?.LaunchTemplateName ?? form.templateId }
                }
                options={(templates.data ?? []).map(({ LaunchTemplateId, LaunchTemplateName }) => ({
                  value: LaunchTemplateId,
                  label: LaunchTemplateName,
                }))}
                onChange={({ detail: { selectedOption } }) => {
                  const template = templates.data?.find((t) => t.LaunchTemplateId === selectedOption.value);
                  change({
                    templateId: selectedOption.value ?? "",
                    templateVersion: String(template?.DefaultVersionNumber ?? ""),
                  });
                }}
              />
            </FormField>
            {form.templateId !== "" && (
              <FormField label="Launch template version" errorText={problems.templateVersion}>
                <Select
                  placeholder="Select version"
                  statusType={isPending ? "loading" : "finished"}
                  selectedOption={
                    form.templateVersion === "" ? null : { value: form.templateVersion, label: form.templateVersion }
                  }
                  options={(versions ?? []).map(({ VersionNumber, VersionDescription, DefaultVersion }) => ({
                    value: String(VersionNumber),
                    label: String(VersionNumber),
                    description: VersionDescription,
                    labelTag: DefaultVersion === true ? "Default" : undefined,
                  }))}
                  onChange={({ detail }) => change({ templateVersion: detail.selectedOption.value ?? "" })}
                />
              </FormField>
            )}
            <Box variant="small">
              The launch template has the disk size and remote access. Its AMI and its instance type, if it has them,
              take the place of those below.
            </Box>
          </SpaceBetween>
        )}
      </SpaceBetween>
    </Container>
  );
}
