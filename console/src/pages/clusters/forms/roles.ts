// Roles, and the services that may assume them.

/** Trusts reports whether a role's trust policy, as IAM lists it, lets a service assume the role. */
export function trusts(policy: string | undefined, service: string): boolean {
  try {
    const document = JSON.parse(decodeURIComponent(policy ?? "")) as { Statement?: unknown };
    const statements = [document.Statement ?? []].flat() as { Effect?: string; Principal?: { Service?: unknown } }[];
    return statements.some(
      ({ Effect, Principal }) => Effect === "Allow" && [Principal?.Service ?? []].flat().includes(service),
    );
  } catch {
    return false;
  }
}

/** RoleName returns the name of a role, without its path: "node" of "arn:aws:iam::111122223333:role/eks/node". */
export function roleName(arn: string): string {
  return arn.slice(arn.lastIndexOf("/") + 1);
}

/**
 * MissingPolicies returns which policies a role lacks. Each need is a list of names of which one suffices:
 * [["AmazonEKSWorkerNodePolicy", "AmazonEKSWorkerNodeMinimalPolicy"]].
 */
export function missingPolicies(needs: string[][], attached: string[]): string[] {
  return needs.flatMap((names) => (names.some((name) => attached.includes(name)) ? [] : names.slice(0, 1)));
}
