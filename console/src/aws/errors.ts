// What AWS, Kubernetes and the network say when a request fails.

/** An error as a page shows it. The code is empty where there is none. */
export interface Description {
  code: string;
  message: string;
}

/** DescribeError returns the code and the message of whatever was thrown. */
export function describeError(error: unknown): Description {
  if (!(error instanceof Error)) return { code: "", message: String(error) };
  const code = error.name === "Error" || error.name === "TypeError" ? "" : error.name;
  const message = error.message === "" || error.message === "UnknownError" ? "no reason was given" : error.message;
  if (error instanceof TypeError && /fetch/i.test(message)) {
    return { code: "", message: "The daemon cannot be reached. Start it with: coracle up" };
  }
  return { code, message };
}

const signedOut = new Set([
  "ExpiredToken",
  "ExpiredTokenException",
  "InvalidClientTokenId",
  "InvalidAccessKeyId",
  "UnrecognizedClientException",
  "AuthFailure",
]);

/** IsSignedOut reports whether the credentials are good no more. */
export function isSignedOut(error: unknown): boolean {
  return error instanceof Error && signedOut.has(error.name);
}

/** IsDenied reports whether a policy refused a request. */
export function isDenied(error: unknown): boolean {
  return error instanceof Error && /^(AccessDenied(Exception)?|UnauthorizedOperation|Forbidden)$/.test(error.name);
}

/** IsNotFound reports whether what was asked for does not exist. */
export function isNotFound(error: unknown): boolean {
  return error instanceof Error && /NotFound|NoSuchEntity/.test(error.name);
}
