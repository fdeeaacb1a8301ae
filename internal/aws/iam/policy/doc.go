// Package policy reads AWS policy documents and decides with them.
//
// A document goes through two steps:
//
//	document, err := policy.Parse(policy.Identity, text) // strict; the error is AWS's MalformedPolicyDocument
//	decision := policy.Evaluate(request, policies)       // about a microsecond
//
// Parse compiles: patterns, condition values and variables are taken apart once, and statements are indexed by the
// service that their actions name. A Document never changes and is shared freely. Compile does the same and remembers
// documents by their text.
//
// Evaluate follows "Policy evaluation logic" of the IAM User Guide: an explicit deny anywhere wins; what is left must
// be allowed by the identity-based policies within the permissions boundary and the session policies, or by the policy
// of the resource, depending on whom that names and on whether the caller is of the same account. The decision says
// which statement of which policy made it, and how AWS words the refusal.
//
// The package is pure: it knows nothing of users and roles in a store. Whoever calls it collects the policies and the
// condition keys.
//
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html
package policy
