// The requests that the forms of add-ons make, and what is the same for other tools.
import type {
  Addon,
  AddonInfo,
  AddonPodIdentityAssociations,
  AddonVersionInfo,
  CreateAddonRequest,
  PodIdentityAssociation,
  ResolveConflicts,
  Update,
  UpdateAddonRequest,
} from "@aws-sdk/client-eks";
import { awsCommand, cloudFormationResource, type Command } from "../../../commands/command";
import { eksctlFile } from "../../../commands/eksctl";
import type { Tags } from "../forms/TagFields";

/** What the form holds. */
export interface Form {
  name: string;
  version: string;
  /** How the add-on gets permissions: by associations, by the tokens of its service account, or by none. */
  access: "pod-identity" | "irsa" | "none";
  /** The role of each service account; those without one are not associated. */
  podRoles: Record<string, string>;
  serviceAccountRoleArn: string;
  configurationValues: string;
  resolveConflicts: ResolveConflicts;
  /** A namespace other than the add-on's own; when it is created only. */
  namespace: string;
  tags: Tags;
}

/** NewForm returns the form as AWS's console opens it for an add-on. */
export function newForm({ addonName = "", addonVersions = [] }: AddonInfo): Form {
  return {
    name: addonName,
    version: defaultVersion(addonVersions),
    access: "none",
    podRoles: {},
    serviceAccountRoleArn: "",
    configurationValues: "",
    resolveConflicts: "NONE",
    namespace: "",
    tags: [],
  };
}

/** DefaultVersion returns the version that EKS installs unless another is chosen. */
export function defaultVersion(versions: AddonVersionInfo[]): string {
  const isDefault = ({ compatibilities = [] }: AddonVersionInfo) => compatibilities.some((c) => c.defaultVersion);
  return (versions.find(isDefault) ?? versions[0])?.addonVersion ?? "";
}

/** FormOf returns the form of an add-on that there is. */
export function formOf(addon: Addon, associations: PodIdentityAssociation[]): Form {
  let access: Form["access"] = "none";
  if (associations.length > 0) access = "pod-identity";
  else if (addon.serviceAccountRoleArn !== undefined) access = "irsa";
  return {
    name: addon.addonName ?? "",
    version: addon.addonVersion ?? "",
    access,
    podRoles: Object.fromEntries(associations.map((a) => [a.serviceAccount ?? "", a.roleArn ?? ""])),
    serviceAccountRoleArn: addon.serviceAccountRoleArn ?? "",
    configurationValues: addon.configurationValues ?? "",
    resolveConflicts: "NONE",
    namespace: "",
    tags: Object.entries(addon.tags ?? {}).map(([key, value]) => ({ key, value, existing: true })),
  };
}

/** WantedBy returns what an update was to change. */
export function wantedBy(update: Update | undefined): Partial<Form> {
  const valueOf = (type: string) => update?.params?.find((param) => param.type === type)?.value;
  const version = valueOf("AddonVersion");
  const configurationValues = valueOf("ConfigurationValues");
  return {
    ...(version !== undefined && { version }),
    ...(configurationValues !== undefined && { configurationValues }),
  };
}

const rolePattern = /^arn:aws[a-z-]*:iam::\d{12}:role\/.+$/;

/** The members of a form that can be wrong. */
export type Problems = Partial<Record<"version" | "serviceAccountRoleArn" | "podRoles" | "namespace", string>>;

/** ProblemsOf says what is wrong with a form, before EKS does. The schema is checked beside it. */
export function problemsOf(form: Form): Problems {
  const problems: Problems = {};
  const bad = Object.values(form.podRoles).find((arn) => arn !== "" && !rolePattern.test(arn));
  if (form.version === "") problems.version = "Choose a version.";
  if (form.access === "irsa" && !rolePattern.test(form.serviceAccountRoleArn)) {
    problems.serviceAccountRoleArn = "Choose a role, or enter the ARN of one.";
  }
  if (form.access === "pod-identity" && bad !== undefined) problems.podRoles = `${bad} is not the ARN of an IAM role.`;
  if (form.namespace !== "" && !/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(form.namespace)) {
    problems.namespace = "Use up to 63 lowercase letters, digits and hyphens.";
  }
  return problems;
}

function associationsOf(form: Form): AddonPodIdentityAssociations[] {
  if (form.access !== "pod-identity") return [];
  return Object.entries(form.podRoles)
    .filter(([, roleArn]) => roleArn !== "")
    .map(([serviceAccount, roleArn]) => ({ serviceAccount, roleArn }));
}

/** TagsOf returns the tags of a form as requests have them. */
export function tagsOf(tags: Tags): Record<string, string> | undefined {
  const wanted = tags.filter((tag) => tag.markedForRemoval !== true);
  return wanted.length === 0 ? undefined : Object.fromEntries(wanted.map(({ key, value }) => [key, value]));
}

const given = (text: string) => (text.trim() === "" ? undefined : text);

/** CreateRequestOf returns the request of CreateAddon. */
export function createRequestOf(clusterName: string, form: Form): CreateAddonRequest {
  const associations = associationsOf(form);
  return {
    clusterName,
    addonName: form.name,
    addonVersion: form.version,
    serviceAccountRoleArn: form.access === "irsa" ? form.serviceAccountRoleArn : undefined,
    podIdentityAssociations: associations.length > 0 ? associations : undefined,
    configurationValues: given(form.configurationValues),
    resolveConflicts: form.resolveConflicts,
    namespaceConfig: form.namespace === "" ? undefined : { namespace: form.namespace },
    tags: tagsOf(form.tags),
  };
}

/**
 * UpdateRequestOf returns the request of UpdateAddon. It has the role even where that stays: an update without takes it
 * away. Associations and values are only named where they change; none of them is an empty list, or an empty document.
 */
export function updateRequestOf(clusterName: string, form: Form, before: Form): UpdateAddonRequest {
  const [was, is] = [before, form].map((f) => JSON.stringify(associationsOf(f)));
  const values = form.configurationValues;
  return {
    clusterName,
    addonName: form.name,
    addonVersion: form.version,
    serviceAccountRoleArn: form.access === "irsa" ? form.serviceAccountRoleArn : undefined,
    podIdentityAssociations: was === is ? undefined : associationsOf(form),
    configurationValues: values === before.configurationValues ? undefined : (given(values) ?? "{}"),
    resolveConflicts: form.resolveConflicts,
  };
}

/** CommandsOf returns what does the same elsewhere: creates an add-on, or updates one that was before. */
export function commandsOf(clusterName: string, form: Form, region: string, before?: Form): Command[] {
  const create = createRequestOf(clusterName, form);
  const tags = Object.entries(create.tags ?? {});
  const aws =
    before === undefined
      ? awsCommand("eks", "create-addon", create, region)
      : awsCommand("eks", "update-addon", updateRequestOf(clusterName, form, before), region);
  return [
    aws,
    eksctlFile(before === undefined ? "create addon" : "update addon", clusterName, region, {
      addons: [
        {
          name: create.addonName,
          version: create.addonVersion,
          serviceAccountRoleARN: create.serviceAccountRoleArn,
          podIdentityAssociations: create.podIdentityAssociations?.map(({ serviceAccount, roleArn }) => ({
            serviceAccountName: serviceAccount,
            roleARN: roleArn,
          })),
          configurationValues: create.configurationValues,
          resolveConflicts: create.resolveConflicts?.toLowerCase(),
          namespaceConfig: create.namespaceConfig,
          tags: create.tags,
        },
      ],
    }),
    cloudFormationResource("Addon", "AWS::EKS::Addon", {
      ClusterName: clusterName,
      AddonName: create.addonName,
      AddonVersion: create.addonVersion,
      ServiceAccountRoleArn: create.serviceAccountRoleArn,
      PodIdentityAssociations: create.podIdentityAssociations?.map(({ serviceAccount, roleArn }) => ({
        ServiceAccount: serviceAccount,
        RoleArn: roleArn,
      })),
      ConfigurationValues: create.configurationValues,
      ResolveConflicts: create.resolveConflicts,
      NamespaceConfig: create.namespaceConfig && { Namespace: create.namespaceConfig.namespace },
      Tags: tags.length > 0 ? tags.map(([Key, Value]) => ({ Key, Value })) : undefined,
    }),
  ];
}

/** What resolveConflicts does, in the words of AWS. */
export const resolutions: Record<"create" | "update", { value: ResolveConflicts; label: string; text: string }[]> = {
  create: [
    {
      value: "NONE",
      label: "None",
      text:
        "If the self-managed version of the add-on is installed on your cluster, Amazon EKS doesn’t change the " +
        "value. Creation of the add-on might fail.",
    },
    {
      value: "OVERWRITE",
      label: "Overwrite",
      text:
        "If the self-managed version of the add-on is installed on your cluster and the Amazon EKS default value is " +
        "different than the existing value, Amazon EKS changes the value to the Amazon EKS default value.",
    },
  ],
  update: [
    {
      value: "NONE",
      label: "None",
      text: "Amazon EKS doesn’t change the value. The update might fail.",
    },
    {
      value: "OVERWRITE",
      label: "Overwrite",
      text: "Amazon EKS overwrites the changed value back to the Amazon EKS default value.",
    },
    {
      value: "PRESERVE",
      label: "Preserve",
      text:
        "Amazon EKS preserves the value. Test any field and value changes on a non-production cluster before " +
        "updating the add-on on your production cluster.",
    },
  ],
};
