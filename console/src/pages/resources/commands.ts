// The commands that print what the page of an object shows.
import { type Command, coracleCommand, kubectlCommand } from "../../commands/command";
import type { Named } from "./address";
import { resourceName } from "./discovery";

function scopeOf({ namespace }: Named): string[] {
  return namespace === undefined ? [] : ["-n", namespace];
}

/** ObjectCommands returns the commands that print an object, and the owners of its fields. */
export function objectCommands(cluster: string, of: Named): Command[] {
  const { resource, name } = of;
  return [
    kubectlCommand(cluster, "get", `${resourceName(resource)}/${name}`, ...scopeOf(of), "-o", "yaml"),
    coracleCommand("fields", `${resource.name}/${name}`, ...scopeOf(of), "--cluster", cluster),
  ];
}

/** ChangesCommand returns the command that prints who changed an object. */
export function changesCommand(cluster: string, of: Named): Command {
  return coracleCommand("audit", `${of.resource.name}/${of.name}`, ...scopeOf(of), "--cluster", cluster);
}
