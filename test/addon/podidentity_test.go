package addon

import (
	"fmt"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// roles are the pods of a user whose service accounts have roles: web by EKS Pod Identity, although its service account
// has the annotation of IRSA, too; db by IRSA. The image is Debian's, and nothing in the pods tells where the AWS APIs
// are or whom to trust.
const roles = `apiVersion: v1
kind: ServiceAccount
metadata:
  name: web
  namespace: default
  annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::111122223333:role/other"}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: db, namespace: default, annotations: {eks.amazonaws.com/role-arn: "%s"}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec: &pod
  serviceAccountName: web
  terminationGracePeriodSeconds: 1
  containers: [{name: aws, image: "` + harness.AWSCLI + `", command: [sleep, infinity]}]
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: default}
spec:
  serviceAccountName: db
  terminationGracePeriodSeconds: 1
  containers: [{name: aws, image: "` + harness.AWSCLI + `", command: [sleep, infinity]}]
`

// podIdentity gives pods roles, and asks in the pods who they are: with the unmodified aws command line and boto3.
func (c *cluster) podIdentity() {
	c.must("coracle", "images", "load", "--data-dir", c.Dir, harness.AWSCLIArchive(c.t))
	c.addon("create-addon", "eks-pod-identity-agent")
	c.aws("iam", "create-role", "--role-name", "web", "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},
		"Action":["sts:AssumeRole","sts:TagSession"],"Condition":{"StringEquals":{
		"aws:RequestTag/kubernetes-namespace":"default"}}}]}`)
	c.aws("iam", "put-role-policy", "--role-name", "web", "--policy-name", "tags", "--policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"eks:DescribeCluster","Resource":
		"arn:aws:eks:*:*:cluster/${aws:PrincipalTag/eks-cluster-name}"}]}`)
	c.aws("eks", "create-pod-identity-association", "--cluster-name", c.Cluster, "--namespace", "default",
		"--service-account", "web", "--role-arn", clustertest.RoleARN("web"))
	db := c.irsa("db", "default", "db", "AmazonEKSClusterPolicy")
	c.await("eks-pod-identity-agent", ekstypes.AddonStatusActive)
	c.kubectl("apply", "-f", c.file("roles.yaml", fmt.Sprintf(roles, db)))
	c.kubectl("wait", "--for=condition=Ready", "pod/web", "pod/db", "--timeout="+eventually.Limit.String())

	in := func(pod string, command ...string) string {
		c.t.Helper()
		return c.kubectl(append([]string{"exec", pod, "--"}, command...)...)
	}
	const boto3 = `import boto3; print(boto3.client("sts").get_caller_identity()["Arn"])`
	for pod, want := range map[string]string{
		"web": "arn:aws:sts::111122223333:assumed-role/web/eks-ironman-20-web-",
		"db":  "arn:aws:sts::111122223333:assumed-role/db/botocore-session-",
	} {
		c.contains("aws in "+pod, in(pod, "aws", "sts", "get-caller-identity"), want)
		c.contains("boto3 in "+pod, in(pod, "python3", "-c", boto3), want)
	}
	c.contains("by a tag of the session", in("web", "aws", "eks", "describe-cluster", "--name", c.Cluster), `"ACTIVE"`)
	if out, errs, err := c.Try(c.Config, "kubectl", "exec", "web", "--", "aws", "iam", "list-roles"); err == nil ||
		!strings.Contains(errs, "no identity-based policy allows the iam:ListRoles action") {
		c.t.Errorf("not allowed: %v %s%s", err, out, errs)
	}
	c.contains("coracle identity of web", c.must("coracle", "identity", "pod/web", "--data-dir", c.Dir),
		"EKS Pod Identity, association a-", "is not used", "has AWS_CONTAINER_CREDENTIALS_FULL_URI",
		"eks-pod-identity-agent-", "lets pods.eks.amazonaws.com in: sts:AssumeRole, sts:TagSession",
		"Allow eks:DescribeCluster on arn:aws:eks:*:*:cluster/${aws:PrincipalTag/eks-cluster-name}",
		"no identity-based policy allows the iam:ListRoles action")
	c.contains("coracle identity of db", c.must("coracle", "identity", "pod/db", "--data-dir", c.Dir),
		"IAM roles for service accounts", "oidc-provider/oidc.eks.", "lets the token of this service account in")
	c.contains("coracle identity without a role", c.must("coracle", "identity", "sa/default", "--data-dir", c.Dir),
		"none of its own")
	c.contains("coracle denied", c.must("coracle", "denied", "--principal", "role/web", "--data-dir", c.Dir),
		`missing: {"Effect":"Allow","Action":"iam:ListRoles"`)
	// A token is worth nothing at another's address, and a pod gets nothing without one.
	c.contains("another's token", in("web", "sh", "-c", `python3 - <<'END'
import os, urllib.request, urllib.error
url = os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"]
for token in ["", "e30.e30.e30", open("/var/run/secrets/kubernetes.io/serviceaccount/token").read()]:
    try:
        print(urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": token})).status)
    except urllib.error.HTTPError as e:
        print(e.code, e.read().decode())
END`), "400 Service account token cannot be empty", "400 Service account token cannot be parsed",
		"(InvalidTokenException)")

	// Without its agent a pod keeps what it has; the DaemonSet brings the agent back.
	c.kubectl("delete", "pods", "-n", "kube-system", "-l", "app.kubernetes.io/name=eks-pod-identity-agent", "--wait")
	c.kubectl("rollout", "status", "daemonset/eks-pod-identity-agent", "-n", "kube-system", "--timeout="+
		eventually.Limit.String())
	c.contains("a new agent", in("web", "aws", "sts", "get-caller-identity"), "assumed-role/web/")
	c.kubectl("delete", "pod/web", "pod/db", "--wait=false")
}
