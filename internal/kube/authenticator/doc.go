// Package authenticator answers, for the API server of every cluster, who a caller is and what
// EKS access policies let that caller do.
//
// An API server knows nothing of IAM. It sends the bearer token that `aws eks get-token` made to
// the token webhook, and what no RBAC rule allows to the authorization webhook; both are served
// here, below /clusters/<ID>/, to the one who holds that cluster's client certificate. API servers are started with
// [Endpoint], [TokenWebhookFlags] and [AuthorizationConfiguration] for that. The admission
// webhook of pods (package podidentity) is served beside them, and the one that validates changes of aws-auth
// (validate.go).
//
// A token goes through these steps:
//
//  1. [ParseToken]: a token is a presigned sts:GetCallerIdentity URL that has the header
//     x-k8s-aws-id among its signed headers and is at most 15 minutes old.
//  2. The request is sent to STS with the cluster's name in that header. STS verifies the
//     signature, so a token that was made for another cluster fails, and says who signed.
//  3. The identity is mapped to a user name and groups, as the cluster's authentication mode
//     says: by its access entry (package record), else by the ConfigMap kube-system/aws-auth.
//     Where there are no access entries, the creator of the cluster is its administrator.
//  4. The answer carries the identity in the extra fields that EKS shows in its audit log. The
//     authorization webhook finds the caller's access entry again by them.
//
// It reads the tables of clusters, issuers, access entries and roles, and aws-auth of every
// cluster through a watch of that one object as user eks:authenticator; it writes nothing but
// the log that EKS ships as stream authenticator-<id>. Nothing is cached: a change of an access
// entry counts with the next webhook call, a change of aws-auth as soon as the watch tells it.
//
// https://docs.aws.amazon.com/eks/latest/userguide/cluster-auth.html
package authenticator
