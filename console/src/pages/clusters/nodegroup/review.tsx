// What the last step of the wizard says of a new node group.
import type { ReactNode } from "react";
import { roleName } from "../forms/roles";
import type { Pair } from "../forms/problems";
import { formatAmiType } from "./amiTypes";
import { type Form, formatCapacity, formatShare, type Template } from "./form";
import { effects } from "./SettingsFields";

interface Part {
  title: string;
  items: { label: string; value: ReactNode }[];
}

const nodes = (text: string) => formatShare({ unit: "number", text });

const inTemplate = "Specified in launch template";

/** FormatPairs returns labels or tags: "team=blue, tier=web". */
export function formatPairs(pairs: Pair[]): string {
  return pairs.length === 0 ? "-" : pairs.map(({ key, value }) => `${key}=${value}`).join(", ");
}

/** FormatTaint returns a taint as kubectl writes it: "gpu=true:NoSchedule". */
export function formatTaint({ key, value, effect }: { key?: string; value?: string; effect?: string }): string {
  const name = effects.find((each) => each.value === effect)?.label ?? effect;
  return `${key ?? ""}${value === undefined || value === "" ? "" : `=${value}`}:${name ?? ""}`;
}

/** ReviewOf returns what the steps have asked for. */
export function reviewOf(form: Form, template: Template): Record<"configuration" | "compute" | "network", Part[]> {
  return {
    configuration: [
      {
        title: "Node group configuration",
        items: [
          { label: "Name", value: form.name },
          { label: "Node IAM role", value: roleName(form.roleArn) },
          {
            label: "Launch template",
            value: form.useTemplate ? `${form.templateId}, version ${form.templateVersion}` : "-",
          },
          { label: "Kubernetes labels", value: formatPairs(form.labels) },
          { label: "Kubernetes taints", value: form.taints.map(formatTaint).join(", ") || "-" },
          { label: "Tags", value: formatPairs(form.tags) },
        ],
      },
    ],
    compute: [
      {
        title: "Node group compute configuration",
        items: [
          { label: "AMI type", value: template.image ? inTemplate : formatAmiType(form.amiType) },
          { label: "Capacity type", value: formatCapacity(form.capacityType) },
          {
            label: "Instance types",
            value: template.instanceType ? inTemplate : form.instanceTypes.join(", "),
          },
          { label: "Disk size", value: form.useTemplate ? inTemplate : `${form.diskSize} GiB` },
        ],
      },
      {
        title: "Node group scaling configuration",
        items: [
          { label: "Desired size", value: nodes(form.desiredSize) },
          { label: "Minimum size", value: nodes(form.minSize) },
          { label: "Maximum size", value: nodes(form.maxSize) },
        ],
      },
      {
        title: "Node group update configuration",
        items: [
          { label: "Maximum unavailable", value: formatShare(form.unavailable) },
          { label: "Update strategy", value: form.updateStrategy === "MINIMAL" ? "Minimal" : "Default" },
          { label: "Node auto repair", value: form.repair ? "Enabled" : "Disabled" },
        ],
      },
    ],
    network: [
      {
        title: "Node group network configuration",
        items: [
          { label: "Subnets", value: form.subnetIds.join(", ") },
          {
            label: "Configure remote access to nodes",
            value: form.remoteAccess && !form.useTemplate ? `On, with key pair ${form.keyPair}` : "Off",
          },
          {
            label: "Allow remote access from",
            value:
              !form.remoteAccess || form.useTemplate
                ? "-"
                : form.sources === "all"
                  ? "All"
                  : form.sourceGroups.join(", "),
          },
        ],
      },
    ],
  };
}
