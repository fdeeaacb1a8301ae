import { expect, test } from "vitest";
import { execEnd } from "./streams";

test("a program ends with an exit status", () => {
  expect(execEnd('{"metadata":{},"status":"Success"}')).toEqual({ exitStatus: 0 });
  expect(
    execEnd(
      JSON.stringify({
        status: "Failure",
        message: "command terminated with non-zero exit code: exit status 130",
        reason: "NonZeroExitCode",
        details: { causes: [{ reason: "ExitCode", message: "130" }] },
      }),
    ),
  ).toEqual({ exitStatus: 130 });
});

test("a program that did not start ends with the error of Kubernetes", () => {
  const message = 'exec failed: unable to start container process: exec: "bash": executable file not found in $PATH';
  const end = execEnd(JSON.stringify({ status: "Failure", reason: "InternalError", message, code: 500 }));
  expect(end).toEqual({ error: expect.objectContaining({ name: "InternalError", message }) as Error });
});
