// What eksctl does the same with: its commands, and its configuration files. https://schema.eksctl.io
import { type Command, shellCommand, withInput, yamlDocument } from "./shell";

type Option = string | boolean | string[] | undefined;

/**
 * EksctlCommand returns a command of eksctl. Options that are not set are left out:
 * eksctlCommand("upgrade cluster", { name: "web", approve: true }, "eu-west-1").
 */
export function eksctlCommand(words: string, options: Record<string, Option>, region: string): Command {
  const groups = Object.entries<Option>({ ...options, region }).flatMap(([name, value]) => {
    if (value === undefined) return [];
    if (value === true) return [[`--${name}`]];
    return [[`--${name}=${Array.isArray(value) ? value.join(",") : String(value)}`]];
  });
  return shellCommand("eksctl", ["eksctl", ...words.split(" ")], ...groups);
}

/** EksctlConfig returns a configuration file of eksctl. */
export function eksctlConfig(cluster: string, region: string, parts: object): Command {
  const metadata = { name: cluster, region };
  return yamlDocument("eksctl", { apiVersion: "eksctl.io/v1alpha5", kind: "ClusterConfig", metadata, ...parts });
}

/** EksctlFile returns a command of eksctl that reads a configuration file, with the file. */
export function eksctlFile(words: string, cluster: string, region: string, parts: object): Command {
  const command = shellCommand("eksctl", ["eksctl", ...words.split(" "), "-f", "-"]);
  return withInput(command, eksctlConfig(cluster, region, parts));
}
