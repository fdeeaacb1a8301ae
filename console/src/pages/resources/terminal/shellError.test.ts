import { expect, test } from "vitest";
import { explainError, kubectlExec } from "./shellError";

const shell = { cluster: "web", namespace: "default", pod: "api-0", container: "api", command: "bash" };

function named(name: string, message: string): Error {
  const error = new Error(message);
  error.name = name;
  return error;
}

test.each([
  [
    "InternalError",
    'OCI runtime exec failed: exec: "bash": executable file not found in $PATH',
    "Error",
    "kubectl --context web debug -it api-0 -n default --image=busybox --target=api",
  ],
  ["NotFound", 'unable to upgrade connection: container not found ("api")', "Error", "Container api does not run."],
  ["Forbidden", 'cannot create resource "pods/exec"', "Forbidden", "AmazonEKSEditPolicy"],
])("an error says what to do: %s %s", (name, message, code, advice) => {
  const explained = explainError(named(name, message), shell);
  expect(explained.name).toBe(code);
  expect(explained.message).toContain(advice);
  expect(explained.message).toContain(message);
});

test("other errors are Kubernetes' own", () => {
  const error = named("NotFound", 'pods "api-0" not found');
  expect(explainError(error, shell)).toBe(error);
});

test("the command of kubectl does the same", () => {
  expect(kubectlExec(shell).join(" ")).toBe("exec -it api-0 -n default -c api -- bash");
});
