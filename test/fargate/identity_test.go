//go:build linux

package fargate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// identity is a pod with a service account that has a role.
const identity = `apiVersion: v1
kind: ServiceAccount
metadata: {name: app, namespace: fargate, annotations: {eks.amazonaws.com/role-arn: "%s"}}
---
apiVersion: v1
kind: Pod
metadata: {name: app, namespace: fargate}
spec:
  serviceAccountName: app
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: "` + harness.Whoami + `", command: [sleep, infinity]}]
`

// assumeRole has a pod ask AWS who it is: the role of its service account, and nobody without that.
// https://docs.aws.amazon.com/eks/latest/userguide/iam-roles-for-service-accounts.html
func (w *fixture) assumeRole() {
	w.Run("", "coracle", "images", "load", "--data-dir", w.Dir, harness.WhoamiArchive(w.t))
	issuer := strings.TrimSpace(w.Run("", "aws", "eks", "describe-cluster", "--name", w.Cluster, "--query",
		"cluster.identity.oidc.issuer", "--output", "text"))
	w.AWS(nil, "iam", "create-open-id-connect-provider", "--url", issuer, "--client-id-list", "sts.amazonaws.com",
		"--thumbprint-list", "9e99a48a9960b14926bb7f3b02e22da2b0ab7280")
	provider := strings.TrimPrefix(issuer, "https://")
	w.AWS(nil, "iam", "create-role", "--role-name", "app", "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Federated":
		"arn:aws:iam::111122223333:oidc-provider/`+provider+`"},"Action":"sts:AssumeRoleWithWebIdentity","Condition":{
		"StringEquals":{"`+provider+`:sub":"system:serviceaccount:fargate:app","`+provider+`:aud":"sts.amazonaws.com"}}}]}`)
	w.Apply(fmt.Sprintf(identity, clustertest.RoleARN("app")))
	w.Await("condition=Ready", "-n", "fargate", "pod/app")

	in := func(command ...string) (string, string, error) {
		return w.Try(w.Config, "kubectl", append([]string{"-n", "fargate", "exec", "app", "--"}, command...)...)
	}
	if out, said, err := in("whoami"); err != nil || !strings.HasPrefix(out,
		"arn:aws:sts::111122223333:assumed-role/app/") {
		w.t.Errorf("the pod is %q: %v %s", out, err, said)
	}
	if out, said, err := in("env", "-u", "AWS_ROLE_ARN", "-u", "AWS_WEB_IDENTITY_TOKEN_FILE", "/bin/whoami"); err == nil ||
		!strings.Contains(said, "no EC2 IMDS role found") {
		w.t.Errorf("without the role of its service account the pod is %q: %v %s", out, err, said)
	}
	for _, path := range []string{"/latest/meta-data/", "/latest/dynamic/instance-identity/document",
		"/fargate/credentials"} {
		if out, said, err := in("fetch", "http://169.254.169.254"+path); err == nil ||
			!strings.Contains(said, "404") {
			w.t.Errorf("at %s the pod finds %q: %v %s", path, out, err, said)
		}
	}
}

// guarded is a server, and a policy with the security groups of its network interface.
const guarded = `apiVersion: vpcresources.k8s.aws/v1beta1
kind: SecurityGroupPolicy
metadata: {name: guarded, namespace: fargate}
spec:
  podSelector: {matchLabels: {app: guarded}}
  securityGroups: {groupIds: ["%s"]}
---
apiVersion: v1
kind: Pod
metadata: {name: guarded, namespace: fargate, labels: {app: guarded}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: guarded
    image: ` + harness.Agnhost + `
    args: [netexec, --http-port=8080]
    readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
`

// followPolicy has a pod with security groups of its own, and takes the rule away by which others reach it.
// https://docs.aws.amazon.com/eks/latest/userguide/security-groups-for-pods.html
func (w *fixture) followPolicy() {
	vpc := strings.TrimSpace(w.Run("", "aws", "ec2", "describe-subnets", "--subnet-ids", w.private[0], "--query",
		"Subnets[0].VpcId", "--output", "text"))
	var group struct{ GroupId string }
	w.AWS(&group, "ec2", "create-security-group", "--group-name", "guarded", "--description", "a pod", "--vpc-id", vpc)
	rule := []string{"--group-id", group.GroupId, "--protocol", "tcp", "--port", "8080", "--source-group", w.Group}
	w.AWS(nil, slices.Concat([]string{"ec2", "authorize-security-group-ingress"}, rule)...)
	w.Apply(fmt.Sprintf(guarded, group.GroupId))
	w.Await("condition=Ready", "-n", "fargate", "pod/guarded")
	var server pod
	w.JSON(&server, "get", "pod", "-n", "fargate", "guarded")
	if i := w.networkInterface(server); len(i.Groups) != 1 || i.Groups[0].GroupId != group.GroupId {
		w.t.Errorf("the network interface of the pod has the security groups %+v, want %s", i.Groups, group.GroupId)
	}

	client := w.pods("fargate", "app=web")[0].Metadata.Name
	connect := func() error {
		out, said, err := w.Try(w.Config, "kubectl", "-n", "fargate", "exec", client, "--", "/agnhost", "connect",
			"--timeout=2s", server.Status.PodIP+":8080")
		if err != nil && strings.Contains(out+said, "TIMEOUT") {
			return errTimeout
		}
		if err != nil {
			return fmt.Errorf("%w: %s%s", err, out, said)
		}
		return nil
	}
	eventually.Nil(w.t, "a pod with the cluster security group reaches the other one", connect)
	w.AWS(nil, slices.Concat([]string{"ec2", "revoke-security-group-ingress"}, rule)...)
	eventually.Nil(w.t, "without the rule it does not", func() error {
		if err := connect(); !errors.Is(err, errTimeout) {
			return fmt.Errorf("the connection ended with %w", err)
		}
		return nil
	})
	w.Run(w.Config, "kubectl", "-n", "fargate", "delete", "pod", "guarded", "--wait=false")
}

var errTimeout = errors.New("timeout")
