// Why a shell did not start, in words that say what to do.
import { kubectlCommand } from "../../../commands/command";

/** A shell in a container. */
export interface Shell {
  cluster: string;
  namespace: string;
  pod: string;
  container: string;
  command: string;
}

/** KubectlExec returns the words of the command of kubectl that starts a shell. */
export function kubectlExec({ namespace, pod, container, command }: Shell): string[] {
  return ["exec", "-it", pod, "-n", namespace, "-c", container, "--", command];
}

/** ExplainError adds to an error of Kubernetes what it means for a shell. */
export function explainError(error: Error, shell: Shell): Error {
  const explanation = explanationOf(error, shell);
  if (explanation === undefined) return error;
  const explained = new Error(`${explanation} Kubernetes says: ${error.message}`, { cause: error });
  explained.name = error.name === "Forbidden" ? error.name : "Error";
  return explained;
}

function explanationOf({ name, message }: Error, shell: Shell): string | undefined {
  const { cluster, namespace, pod, container, command } = shell;
  if (/executable file not found|no such file or directory/i.test(message)) {
    const options = ["-it", pod, "-n", namespace, "--image=busybox", `--target=${container}`];
    return (
      `The image of container ${container} has no ${command}. Choose another command. For an image without a shell, ` +
      `add a container that has one: ${kubectlCommand(cluster, "debug", ...options).text}.`
    );
  }
  if (/container not found|is not running|not created or running/i.test(message)) {
    return `Container ${container} does not run. Its events and its previous logs tell why.`;
  }
  if (name === "Forbidden") {
    return "You may not run commands in pods here. AmazonEKSEditPolicy is an access policy that allows it.";
  }
  return undefined;
}
