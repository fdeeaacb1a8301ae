// Package cluster tests what a user does first: create a cluster with the unmodified aws
// command line, use it with kubectl, upgrade it, delete it; and what must survive.
package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
)

const trust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

// TestFirstUse runs the commands of the transcript with which the README begins.
func TestFirstUse(t *testing.T) {
	t.Parallel()
	d := harness.Start(t)

	var role struct{ Role struct{ Arn string } }
	d.AWS(&role, "iam", "create-role", "--role-name", "eks-service", "--assume-role-policy-document", trust)
	d.AWS(nil, "iam", "attach-role-policy", "--role-name", "eks-service", "--policy-arn",
		"arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")
	var subnets struct{ Subnets []struct{ SubnetId string } }
	d.AWS(&subnets, "ec2", "describe-subnets")
	if len(subnets.Subnets) < 2 {
		t.Fatalf("the default VPC has %d subnets", len(subnets.Subnets))
	}
	var created struct{ Cluster map[string]any }
	d.AWS(&created, "eks", "create-cluster", "--name", "ironman-2022", "--kubernetes-version", "1.35", "--role-arn",
		role.Role.Arn,
		"--resources-vpc-config", "subnetIds="+subnets.Subnets[0].SubnetId+","+subnets.Subnets[1].SubnetId)
	if created.Cluster["status"] != "CREATING" {
		t.Errorf("a cluster just created is %v", created.Cluster["status"])
	}
	d.Run("", "aws", "eks", "wait", "cluster-active", "--name", "ironman-2022")
	config := d.Kubeconfig("ironman-2022")

	whoami := d.Run(config, "kubectl", "auth", "whoami", "-o", "json")
	var me struct {
		Status struct {
			UserInfo struct {
				Username, UID string
				Groups        []string
				Extra         map[string][]string
			}
		}
	}
	if err := json.Unmarshal([]byte(whoami), &me); err != nil {
		t.Fatal(err)
	}
	if u := me.Status.UserInfo; u.Username != "kubernetes-admin" || !slices.Contains(u.Groups, "system:masters") {
		t.Errorf("kubectl auth whoami says %q of %q", u.Username, u.Groups)
	}
	for _, k := range []string{"arn", "canonicalArn", "principalId", "accessKeyId", "sessionName"} {
		if _, ok := me.Status.UserInfo.Extra[k]; !ok {
			t.Errorf("extra has no %s: %s", k, whoami)
		}
	}
	seen := d.Run(config, "kubectl", "get", "ns,clusterrole", "-o", "name")
	for _, want := range []string{"namespace/kube-system", "clusterrole.rbac.authorization.k8s.io/eks:addon-manager",
		"clusterrole.rbac.authorization.k8s.io/eks:node-bootstrapper"} {
		if !strings.Contains(seen, want+"\n") {
			t.Errorf("kubectl get ns,clusterrole does not show %s:\n%s", want, seen)
		}
	}
	if v := serverVersion(t, d, config); !strings.HasPrefix(v, "v1.35.4-eks-") {
		t.Errorf("kubectl version says the server is %s", v)
	}

	d.Run(config, "kubectl", "create", "namespace", "kept")
	d.Run(config, "kubectl", "-n", "kept", "create", "secret", "generic", "kept", "--from-literal=a=b")
	var update struct {
		Update struct{ Id, Type, Status string }
	}
	d.AWS(&update, "eks", "update-cluster-version", "--name", "ironman-2022", "--kubernetes-version", "1.36")
	if update.Update.Type != "VersionUpdate" || update.Update.Status != "InProgress" {
		t.Errorf("update-cluster-version answered %+v", update.Update)
	}
	d.Run("", "aws", "eks", "wait", "cluster-active", "--name", "ironman-2022")
	d.AWS(&update, "eks", "describe-update", "--name", "ironman-2022", "--update-id", update.Update.Id)
	if update.Update.Status != "Successful" {
		t.Errorf("the version update is %s", harness.Text(update))
	}
	if v := serverVersion(t, d, config); !strings.HasPrefix(v, "v1.36.3-eks-") {
		t.Errorf("after the update kubectl version says the server is %s", v)
	}
	if got := d.Run(config, "kubectl", "-n", "kept", "get", "secret", "kept", "-o",
		"jsonpath={.data.a}"); got != "Yg==" {
		t.Errorf("the secret now holds %q", got)
	}

	d.AWS(nil, "eks", "delete-cluster", "--name", "ironman-2022")
	d.Run("", "aws", "eks", "wait", "cluster-deleted", "--name", "ironman-2022")
	for _, p := range d.Processes() {
		if strings.Contains(p, "kube-apiserver") {
			t.Errorf("after the cluster's deletion there is still: %s", p)
		}
	}
	if left, err := filepath.Glob(filepath.Join(d.Dir, "clusters", "*")); err != nil || len(left) > 0 {
		t.Errorf("after the cluster's deletion there is still: %v %v", left, err)
	}
	var interfaces struct{ NetworkInterfaces []any }
	d.AWS(&interfaces, "ec2", "describe-network-interfaces")
	if len(interfaces.NetworkInterfaces) > 0 {
		t.Errorf("after the cluster's deletion there are still ENIs: %s", harness.Text(interfaces))
	}
}

func serverVersion(t *testing.T, d *harness.Daemon, config string) string {
	t.Helper()
	var v struct{ ServerVersion struct{ GitVersion string } }
	if err := json.Unmarshal([]byte(d.Run(config, "kubectl", "version", "-o", "json")), &v); err != nil {
		t.Fatal(err)
	}
	return v.ServerVersion.GitVersion
}

// TestAccessIsGivenAndTakenAway follows a role that an access entry lets in, as kubectl sees it.
func TestAccessIsGivenAndTakenAway(t *testing.T) {
	t.Parallel()
	d := harness.Start(t)
	d.CreateCluster("access", "1.35", d.ClusterRole(), d.Subnets())
	d.AwaitStatus("access", "ACTIVE")
	admin := d.Kubeconfig("access")

	d.AWS(nil, "iam", "create-role", "--role-name", "dev", "--path", "/team/", "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::111122223333:root"},"Action":"sts:AssumeRole"}]}`)
	const devARN = "arn:aws:iam::111122223333:role/team/dev"
	dev := filepath.Join(filepath.Dir(admin), "kubeconfig-dev")
	// Not update-kubeconfig --role-arn, which names the session itself.
	var assumed struct {
		Credentials struct{ AccessKeyId, SecretAccessKey, SessionToken string }
	}
	d.AWS(&assumed, "sts", "assume-role", "--role-arn", devARN, "--role-session-name", "jane")
	d.Run("", "aws", "eks", "update-kubeconfig", "--name", "access", "--kubeconfig", dev)
	d.Run(dev, "kubectl", "config", "set-credentials", "arn:aws:eks:"+harness.Region+":111122223333:cluster/access",
		"--exec-env", "AWS_ACCESS_KEY_ID="+assumed.Credentials.AccessKeyId,
		"--exec-env", "AWS_SECRET_ACCESS_KEY="+assumed.Credentials.SecretAccessKey, "--exec-env", "AWS_SESSION_TOKEN="+
			assumed.Credentials.SessionToken)

	expect := func(what, want string, args ...string) {
		t.Helper()
		err := eventually.Try(100*time.Millisecond, func() error {
			out, errs, _ := d.Try(dev, "kubectl", args...)
			if !strings.Contains(out+errs, want) {
				return fmt.Errorf("%s: kubectl %s answers %q, want %q", what, strings.Join(args, " "), out+errs, want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	expect("an unknown role", "You must be logged in to the server", "get", "pods")

	entries, principal, cluster := eks.NewFromConfig(d.Config()), aws.String(devARN), aws.String("access")
	if _, err := entries.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: cluster,
		PrincipalArn: principal}); err != nil {
		t.Fatal(err)
	}
	expect("an entry without policies", "forbidden", "get", "pods")
	_, err := entries.AssociateAccessPolicy(t.Context(), &eks.AssociateAccessPolicyInput{ClusterName: cluster,
		PrincipalArn: principal,
		PolicyArn:    aws.String("arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"),
		AccessScope:  &ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeNamespace, Namespaces: []string{"default"}}})
	if err != nil {
		t.Fatal(err)
	}
	expect("view in a namespace", "No resources found", "get", "pods")
	expect("elsewhere", "forbidden", "get", "pods", "-n", "kube-system")
	expect("writing", "forbidden", "create", "configmap", "x")
	expect("its name", "arn:aws:sts::111122223333:assumed-role/dev/jane", "auth", "whoami")
	if _, err := entries.DeleteAccessEntry(t.Context(), &eks.DeleteAccessEntryInput{ClusterName: cluster,
		PrincipalArn: principal}); err != nil {
		t.Fatal(err)
	}
	expect("an entry deleted", "You must be logged in to the server", "get", "pods")

	// aws-auth names a role without its path.
	manifest := filepath.Join(filepath.Dir(admin), "aws-auth.yaml")
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: aws-auth, namespace: kube-system}\n" +
		"data:\n  mapRoles: |\n    - nonsense\n    - {rolearn: 'arn:aws:iam::111122223333:role/dev', username: " +
		"'dev:{{SessionName}}', groups: ['system:masters']}\n"
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d.Run(admin, "kubectl", "apply", "-f", manifest)
	expect("aws-auth", "coredns-", "get", "pods", "-n", "kube-system")
	expect("aws-auth's name", "dev:jane", "auth", "whoami")
	d.Run(admin, "kubectl", "-n", "kube-system", "delete", "configmap", "aws-auth")
	expect("no aws-auth", "You must be logged in to the server", "get", "pods")

	// A token is good for its own cluster only.
	server := d.Run(admin, "kubectl", "config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster.server}")
	_, errs, err := d.Try("/dev/null", "kubectl", "--server", server, "--insecure-skip-tls-verify", "--token",
		d.Token("another"), "get", "ns")
	if err == nil || !strings.Contains(errs, "credentials") && !strings.Contains(errs, "Unauthorized") {
		t.Errorf("a token of another cluster: %v %s", err, errs)
	}
	// An access policy's administrator may do what system:masters may, escalate included.
	d.Run(admin, "kubectl", "create", "clusterrole", "everything", "--verb=*", "--resource=*.*")
}
