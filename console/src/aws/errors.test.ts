import { expect, test } from "vitest";
import { describeError, isDenied, isNotFound, isSignedOut } from "./errors";

function named(name: string, message: string): Error {
  const error = new Error(message);
  error.name = name;
  return error;
}

test("an error of AWS has its code and message", () => {
  expect(describeError(named("ResourceInUseException", "Cluster already exists"))).toEqual({
    code: "ResourceInUseException",
    message: "Cluster already exists",
  });
});

test("what cannot be reached says what to do", () => {
  expect(describeError(new TypeError("Failed to fetch")).message).toContain("coracle up");
});

test.each([
  ["ExpiredTokenException", true, false, false],
  ["InvalidClientTokenId", true, false, false],
  ["AccessDeniedException", false, true, false],
  ["UnauthorizedOperation", false, true, false],
  ["ResourceNotFoundException", false, false, true],
  ["NoSuchEntity", false, false, true],
  ["InvalidVolume.NotFound", false, false, true],
  ["ValidationError", false, false, false],
])("%s", (name, signedOut, denied, notFound) => {
  const error = named(name, "");
  expect([isSignedOut(error), isDenied(error), isNotFound(error)]).toEqual([signedOut, denied, notFound]);
});
