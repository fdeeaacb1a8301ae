package addon

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/wire/sigv4"
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
	for pod, want := range map[string]string{"web": "assumed-role/web/eks-ironman-20-web-", "db": "assumed-role/db/"} {
		c.contains("the SDK for Go in "+pod, in(pod, "whoami"), want)
	}
	// The address of a call is the public one of its node, which the VPC gives; not the one that the VPC's owner chose.
	public := strings.Fields(c.aws("ec2", "describe-instances", "--query",
		"Reservations[].Instances[].PublicIpAddress", "--output", "text"))
	c.aws("iam", "put-role-policy", "--role-name", "web", "--policy-name", "addresses", "--policy-document",
		fmt.Sprintf(`{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Action":"ec2:DescribeRegions","Resource":"*","Condition":{"IpAddress":{"aws:SourceIp":["%s"]}}},
		{"Effect":"Allow","Action":"ec2:DescribeVpcs","Resource":"*","Condition":{"IpAddress":{"aws:SourceIp":"172.16.0.0/12"}}}
		]}`, strings.Join(public, `","`)))
	c.contains("by the public address of the node", in("web", "aws", "ec2", "describe-regions"), "us-east-1")
	if out, errs, err := c.Try(c.Config, "kubectl", "exec", "web", "--", "aws", "ec2", "describe-vpcs"); err == nil ||
		!strings.Contains(errs, "no identity-based policy allows the ec2:DescribeVpcs action") {
		c.t.Errorf("by an address of the VPC: %v %s%s", err, out, errs)
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

	c.faultsOfTokens(in)

	// Without its agent a pod keeps what it has; the DaemonSet brings the agent back.
	c.kubectl("delete", "pods", "-n", "kube-system", "-l", "app.kubernetes.io/name=eks-pod-identity-agent", "--wait")
	c.kubectl("rollout", "status", "daemonset/eks-pod-identity-agent", "-n", "kube-system", "--timeout="+
		eventually.Limit.String())
	c.contains("a new agent", in("web", "aws", "sts", "get-caller-identity"), "assumed-role/web/")
	c.kubectl("delete", "pod/web", "pod/db")
}

// askAgent is a program that asks the agent for credentials with the token of its argument.
const askAgent = `import sys, urllib.request, urllib.error
try:
    r = urllib.request.Request("http://169.254.170.23/v1/credentials", headers={"Authorization": sys.argv[1]})
    print(urllib.request.urlopen(r).status)
except urllib.error.HTTPError as e:
    print(e.code, e.read().decode())
`

// faultsOfTokens tries what tokens and sessions are worth when what they are for has changed.
func (c *cluster) faultsOfTokens(in func(pod string, command ...string) string) {
	c.t.Helper()
	// The token of a pod that is gone.
	c.kubectl("apply", "-f", c.file("gone.yaml", `apiVersion: v1
kind: Pod
metadata: {name: gone, namespace: default}
spec:
  serviceAccountName: web
  terminationGracePeriodSeconds: 0
  containers: [{name: aws, image: "`+harness.AWSCLI+`", command: [sleep, infinity]}]
`))
	c.kubectl("wait", "--for=condition=Ready", "pod/gone", "--timeout="+eventually.Limit.String())
	token := in("gone", "sh", "-c", `cat "$AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"`)
	c.kubectl("delete", "pod/gone", "--wait")
	c.contains("the token of a pod that is gone", in("web", "python3", "-c", askAgent, token), "400",
		"InvalidTokenException")

	// A clock that is off: what is signed says so.
	if out, errs, err := c.Try(c.Config, "kubectl", "exec", "web", "--", "env",
		"LD_PRELOAD=/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", "FAKETIME=+1h", "aws", "sts",
		"get-caller-identity"); err == nil || !strings.Contains(errs, "Signature not yet current") {
		c.t.Errorf("with a clock an hour ahead: %v %s%s", err, out, errs)
	}

	// A trust policy for another namespace, while the pod holds a session; and no role any more.
	provider := strings.TrimPrefix(c.issuer(), "https://")
	c.aws("iam", "update-assume-role-policy", "--role-name", "db", "--policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::111122223333:oidc-provider/`+
			provider+`"},"Action":"sts:AssumeRoleWithWebIdentity","Condition":{"StringEquals":{"`+provider+
			`:sub":"system:serviceaccount:other:db"}}}]}`)
	refused := func(what, want string, command ...string) {
		c.t.Helper()
		out, errs, err := c.Try(c.Config, "kubectl", append([]string{"exec", "db", "--"}, command...)...)
		if err == nil || !strings.Contains(errs, want) {
			c.t.Errorf("%s: %v %s%s, want %s", what, err, out, errs, want)
		}
	}
	// The SDK for Go asks for a session; the aws command line has kept one in a file, which goes on.
	refused("a trust policy for another namespace", "Not authorized to perform sts:AssumeRoleWithWebIdentity", "whoami")
	c.contains("a session from before", in("db", "aws", "sts", "get-caller-identity"), "assumed-role/db/")
	c.contains("coracle identity of db", c.must("coracle", "identity", "pod/db", "--data-dir", c.Dir),
		"does not let the token of this service account in")
	c.aws("iam", "detach-role-policy", "--role-name", "db", "--policy-arn",
		"arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")
	c.aws("iam", "delete-role", "--role-name", "db")
	refused("a role that is gone", "InvalidClientTokenId", "aws", "sts", "get-caller-identity")
	refused("a role that is gone", "Not authorized to perform sts:AssumeRoleWithWebIdentity", "whoami")
}

// withoutDaemon kills the daemon under a pod with a role: its agent goes on with what it has.
func (c *cluster) withoutDaemon() {
	c.kubectl("apply", "-f", c.file("roles.yaml", fmt.Sprintf(roles, clustertest.RoleARN("db"))))
	c.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout="+eventually.Limit.String())
	c.contains("before", c.kubectl("exec", "web", "--", "whoami"), "assumed-role/web/")
	c.kubectl("exec", "web", "--", "sh", "-c", `cat >/tmp/ask.py <<'END'
`+askAgent+`END
( while sleep 0.2; do python3 /tmp/ask.py "$(cat "$AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")"; done ) >/tmp/asked 2>&1 &`)
	c.until("the pod asks", func() error {
		if out := c.kubectl("exec", "web", "--", "cat", "/tmp/asked"); !strings.Contains(out, "200") {
			return fmt.Errorf("answered %s", out)
		}
		return nil
	})
	buckets := c.forwardBuckets()
	c.Restart()
	c.until("kubectl works again", func() error {
		_, errs, err := c.Try(c.Config, "kubectl", "exec", "web", "--", "whoami")
		if err != nil {
			return fmt.Errorf("%w: %s", err, errs)
		}
		return nil
	})
	if out := strings.Fields(c.kubectl("exec", "web", "--", "cat", "/tmp/asked")); len(out) == 0 ||
		strings.Trim(strings.Join(out, ""), "20") != "" {
		c.t.Errorf("meanwhile the agent answered %q", out)
	}
	c.bucketsFromPods(buckets)
	c.kubectl("delete", "pod/web", "pod/db", "--wait=false")
}

// buckets is an endpoint of the operator's that stands for Amazon S3. It keeps objects by their paths.
type buckets struct{ sync.Map }

// ServeHTTP takes requests that are signed with the endpoint's credentials alone.
func (b *buckets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	signature, err := sigv4.Parse(r)
	if err == nil && signature.AccessKeyID != "ENDPOINT" {
		err = fmt.Errorf("the request is signed with the access key %s", signature.AccessKeyID)
	}
	var content []byte
	if err == nil {
		var payload *sigv4.Payload
		if payload, err = signature.VerifyHead(r.Body, "secret", time.Now()); err == nil {
			content, err = io.ReadAll(payload)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if r.Method == http.MethodPut {
		b.Store(r.URL.Path, string(content))
	} else if object, ok := b.Load(r.URL.Path); ok {
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(object.(string)))
	} else {
		http.NotFound(w, r)
	}
}

// forwardBuckets has the daemon forward Amazon S3 from its next start on.
func (c *cluster) forwardBuckets() *buckets {
	c.t.Helper()
	b := &buckets{}
	server := httptest.NewServer(b)
	c.t.Cleanup(server.Close)
	if err := os.WriteFile(filepath.Join(c.Dir, "forward-credentials"),
		[]byte("[s3]\naws_access_key_id = ENDPOINT\naws_secret_access_key = secret\n"), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.SetExtraEnv("CORACLE_FORWARD=s3=" + server.URL)
	return b
}

// bucketsFromPods uses Amazon S3, which the daemon forwards, in a pod without any settings: with the unmodified aws
// command line and boto3, by the permissions of the pod's role.
func (c *cluster) bucketsFromPods(b *buckets) {
	c.t.Helper()
	c.aws("iam", "put-role-policy", "--role-name", "web", "--policy-name", "logs", "--policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["s3:GetObject","s3:PutObject"],
		"Resource":"arn:aws:s3:::logs/${aws:PrincipalTag/kubernetes-namespace}/*"}]}`)
	shell := func(script string) (stdout, stderr string, err error) {
		return c.Try(c.Config, "kubectl", "exec", "web", "--", "sh", "-c", script)
	}
	c.until("the role may write", func() error {
		_, errs, err := shell(`echo hello > /tmp/report && aws s3 cp /tmp/report s3://logs/default/report`)
		if err != nil {
			return fmt.Errorf("%w: %s", err, errs)
		}
		return nil
	})
	if object, _ := b.Load("/logs/default/report"); object != "hello\n" {
		c.t.Errorf("the endpoint has %q", object)
	}
	if out, errs, err := shell(`aws s3 cp s3://logs/default/report -`); out != "hello\n" {
		c.t.Errorf("read %q: %v %s", out, err, errs)
	}
	const boto3 = `import boto3; print(boto3.client("s3").get_object(Bucket="logs", Key="default/report")["Body"].read())`
	if out, errs, err := c.Try(c.Config, "kubectl", "exec", "web", "--", "python3", "-c", boto3); out != "b'hello\\n'\n" {
		c.t.Errorf("boto3 read %q: %v %s", out, err, errs)
	}
	if _, errs, err := shell(`aws s3 cp /tmp/report s3://logs/kube-system/report`); err == nil ||
		!strings.Contains(errs, "no identity-based policy allows the s3:PutObject action") {
		c.t.Errorf("into the folder of another namespace: %v %s", err, errs)
	}
}

// networkByIdentity gives the VPC CNI plugin a role by EKS Pod Identity, and takes the permission from the role of the
// nodes: pods get addresses nevertheless.
func (c *cluster) networkByIdentity() {
	c.aws("iam", "create-role", "--role-name", "cni", "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},
		"Action":["sts:AssumeRole","sts:TagSession"]}]}`)
	c.aws("iam", "attach-role-policy", "--role-name", "cni", "--policy-arn",
		"arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy")
	c.addon("create-addon", "vpc-cni", "--resolve-conflicts", "OVERWRITE", "--configuration-values", enforcing,
		"--pod-identity-associations", "serviceAccount=aws-node,roleArn="+clustertest.RoleARN("cni"))
	a := c.await("vpc-cni", ekstypes.AddonStatusActive)
	if len(a.PodIdentityAssociations) != 1 {
		c.t.Fatalf("the associations of the add-on are %q", a.PodIdentityAssociations)
	}
	id := a.PodIdentityAssociations[0][strings.LastIndex(a.PodIdentityAssociations[0], "/")+1:]
	c.contains("its owner", c.aws("eks", "describe-pod-identity-association", "--cluster-name", c.Cluster,
		"--association-id", id), `"ownerArn": "`+*a.AddonArn+`"`)
	c.refused([]string{"owned by", "vpc-cni"}, "eks", "delete-pod-identity-association", "--cluster-name", c.Cluster,
		"--association-id", id)
	c.kubectl("rollout", "restart", "daemonset/aws-node", "-n", "kube-system") // running pods have no role yet
	c.kubectl("rollout", "status", "daemonset/aws-node", "-n", "kube-system", "--timeout="+eventually.Limit.String())
	c.aws("iam", "detach-role-policy", "--role-name", clustertest.NodeRole, "--policy-arn",
		"arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy")
	c.kubectl("apply", "-f", c.file("many.yaml", `apiVersion: apps/v1
kind: Deployment
metadata: {name: many, namespace: default}
spec:
  replicas: 30
  selector: {matchLabels: {app: many}}
  template:
    metadata: {labels: {app: many}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: pause, image: "`+harness.Agnhost+`", args: [pause]}]
`))
	c.kubectl("rollout", "status", "deployment/many", "--timeout="+eventually.Limit.String())
	c.kubectl("delete", "deployment/many", "--wait=false")
	denied := c.must("coracle", "denied", "--principal", "role/"+clustertest.NodeRole, "--data-dir", c.Dir)
	if strings.Contains(denied, "ec2:AssignPrivateIpAddresses") || strings.Contains(denied, "ec2:CreateNetworkInterface") {
		c.t.Errorf("the plugin asked with the role of the node:\n%s", denied)
	}
	c.aws("iam", "attach-role-policy", "--role-name", clustertest.NodeRole, "--policy-arn",
		"arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy")
	c.networkPolicies()
	c.addon("delete-addon", "vpc-cni", "--preserve")
	c.gone("vpc-cni")
	// The association is the user's now, as aws-node goes on with it.
	c.aws("eks", "delete-pod-identity-association", "--cluster-name", c.Cluster, "--association-id", id)
}
