package addon

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// takeover takes over the VPC CNI plugin as users do: kubectl installed it when the cluster was created, in another
// version than the add-on's.
func (c *cluster) takeover() {
	const node = "daemonset/aws-node"
	other, standard := c.other("vpc-cni")
	before := c.workload(node)
	if !strings.HasSuffix(before.image("aws-node"), ":"+standard) || manager(before.Metadata,
		"kubectl-client-side-apply") == nil {
		c.t.Fatalf("a new cluster runs %s, managed by %s", before.image("aws-node"),
			harness.Text(before.Metadata.ManagedFields))
	}
	role := c.irsa("vpc-cni", "kube-system", "aws-node", "AmazonEKS_CNI_Policy")

	// What would come of it is known before.
	told := c.fields(node, "-n", "kube-system", "--addon-version", other, "--resolve-conflicts", "NONE")
	c.contains("coracle fields", told, "create-addon --cluster-name "+c.Cluster+
		" --addon-name vpc-cni --addon-version "+other+" --resolve-conflicts NONE", "would fail, and change nothing",
		"! daemonset/aws-node would conflict", "conflicts with kubectl-client-side-apply over",
		`.spec.template.spec.containers[name="aws-node"].image`)
	told = c.fields(node, "-n", "kube-system", "--addon-version", other, "--resolve-conflicts", "OVERWRITE")
	const image = `image: \S+/amazon-k8s-cni:`
	lost := `(?m)^kubectl-client-side-apply +[┃┆] - +` + image + regexp.QuoteMeta(standard)
	gained := `(?m)^eks +[┃┆] \+ +` + image + regexp.QuoteMeta(other) + "$"
	if !regexp.MustCompile(lost).MatchString(told) || !regexp.MustCompile(gained).MatchString(told) {
		c.t.Errorf("coracle fields does not foretell the image:\n%s", told)
	}

	c.addon("create-addon", "vpc-cni", "--addon-version", other, "--service-account-role-arn", role)
	issue := c.issue("vpc-cni", ekstypes.AddonStatusCreateFailed, ekstypes.AddonIssueCodeConfigurationConflict,
		`conflicts with "kubectl-client-side-apply" using apps/v1:`,
		`- .spec.template.spec.containers[name="aws-node"].image`,
		`- .spec.template.spec.initContainers[name="aws-vpc-cni-init"].image`)
	if !regexp.MustCompile(`Apply failed with \d conflicts: `).MatchString(*issue.Message) ||
		len(issue.ResourceIds) == 0 || !strings.Contains(strings.Join(issue.ResourceIds, " "), "aws-node") {
		c.t.Errorf("the issue is %s", harness.Text(issue))
	}
	if now := c.workload(node); harness.Text(now) != harness.Text(before) &&
		now.Metadata.Generation != before.Metadata.Generation {
		c.t.Errorf("a conflict changed the DaemonSet:\n%s\n%s", harness.Text(before), harness.Text(now))
	}

	c.addon("create-addon", "vpc-cni", "--addon-version", other, "--service-account-role-arn", role,
		"--resolve-conflicts", "OVERWRITE")
	a := c.await("vpc-cni", ekstypes.AddonStatusActive)
	if *a.AddonVersion != other || *a.ServiceAccountRoleArn != role {
		c.t.Errorf("ACTIVE is %s", harness.Text(a))
	}
	now := c.workload(node)
	for _, container := range []string{"aws-node", "aws-vpc-cni-init"} { // the agent's versions are others
		if !strings.HasSuffix(now.image(container), ":"+other) {
			c.t.Errorf("container %s has image %s", container, now.image(container))
		}
	}
	if m := manager(now.Metadata, "eks"); m == nil || m.Operation != metav1.ManagedFieldsOperationApply ||
		m.APIVersion != "apps/v1" ||
		!strings.Contains(string(m.FieldsV1.Raw), `"k:{\"name\":\"aws-node\"}"`) {
		c.t.Errorf("eks manages %s", harness.Text(m))
	}
	if running := c.kubectl("get", "pods", "-n", "kube-system", "-l", "k8s-app=aws-node", "-o",
		`jsonpath={.items[*].status.containerStatuses[?(@.name=="aws-node")].image}`); strings.Count(running,
		":"+other) != len(c.Nodes()) {
		c.t.Errorf("ACTIVE, but the pods run %s", running)
	}
	var account struct{ Metadata metav1.ObjectMeta }
	if c.get(&account, "serviceaccount", "aws-node", "-n",
		"kube-system"); account.Metadata.Annotations["eks.amazonaws.com/role-arn"] != role {
		c.t.Errorf("the service account has %q", account.Metadata.Annotations)
	}

	// A value under a key that eks owns only as a key stays its user's, through an update and a change of what eks
	// owns.
	c.kubectl("set", "env", node, "-n", "kube-system", "-c", "aws-node", "AWS_VPC_ENI_MTU=1500")
	c.contains("coracle fields", c.fields(node, "-n", "kube-system"), "It belongs to the add-on vpc-cni "+other)
	if told := c.fields(node, "-n", "kube-system"); !regexp.MustCompile(
		`(?m)^eks, \S+ +┆ +- name: AWS_VPC_ENI_MTU\nkubectl-set +value: "1500"$`).MatchString(told) {
		c.t.Errorf("coracle fields does not say whose the value is:\n%s", told)
	}
	c.kubectl("patch", node, "-n", "kube-system", "--type", "json", "-p",
		`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example.com/mine"}]`)
	c.until("eks takes its image back", func() error {
		if is := c.workload(node).image("aws-node"); !strings.HasSuffix(is, ":"+other) {
			return fmt.Errorf("the image is %s", is)
		}
		return nil
	})
	c.update("vpc-cni", ekstypes.UpdateStatusSuccessful, "--addon-version", standard, "--service-account-role-arn",
		role, "--resolve-conflicts", "NONE")
	c.await("vpc-cni", ekstypes.AddonStatusActive)
	now = c.workload(node)
	if !strings.HasSuffix(now.image("aws-node"), ":"+standard) || now.env("aws-node", "AWS_VPC_ENI_MTU") != "1500" {
		c.t.Errorf("after the update the image is %s, and AWS_VPC_ENI_MTU %q", now.image("aws-node"),
			now.env("aws-node", "AWS_VPC_ENI_MTU"))
	}
	c.auditLog()

	// Whoever gives the add-on up may keep what it made.
	uid := now.Metadata.UID
	c.addon("delete-addon", "vpc-cni", "--preserve")
	c.gone("vpc-cni")
	left := c.workload(node)
	if left.Metadata.UID != uid || harness.Text(left.Spec) != harness.Text(now.Spec) || manager(left.Metadata,
		"eks") != nil {
		c.t.Errorf("preserved is %s", harness.Text(left))
	}
	c.contains("coracle fields", c.fields(node, "-n", "kube-system"), "It belongs to no add-on of the cluster.")
}

// irsa makes a role for a service account of the cluster.
func (c *cluster) irsa(name, namespace, account, policy string) string {
	c.t.Helper()
	provider := strings.TrimPrefix(c.issuer(), "https://")
	c.aws("iam", "create-role", "--role-name", name, "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::111122223333:oidc-provider/`+provider+`"},
		"Action":"sts:AssumeRoleWithWebIdentity","Condition":{"StringEquals":{"`+provider+
			`:sub":"system:serviceaccount:`+namespace+`:`+account+`","`+provider+`:aud":"sts.amazonaws.com"}}}]}`)
	c.aws("iam", "attach-role-policy", "--role-name", name, "--policy-arn", "arn:aws:iam::aws:policy/"+policy)
	return clustertest.RoleARN(name)
}

// issuer returns the URL of the issuer of the cluster's tokens.
func (c *cluster) issuer() string {
	c.t.Helper()
	return strings.TrimSpace(c.aws("eks", "describe-cluster", "--name", c.Cluster, "--query",
		"cluster.identity.oidc.issuer", "--output", "text"))
}

// auditLog finds what EKS did to the DaemonSet with the query that people use on AWS.
func (c *cluster) auditLog() {
	c.t.Helper()
	type event struct {
		RequestURI string
		User       struct {
			Username string
			Groups   []string
		}
		UserAgent      string
		ResponseStatus struct {
			Code   int
			Reason string
		}
		ResponseObject struct {
			Message string
			Details struct {
				Causes []struct{ Reason, Message, Field string }
			}
			Metadata struct {
				ManagedFields []struct{ Manager, Operation string }
			}
		}
	}
	const path = "/apis/apps/v1/namespaces/kube-system/daemonsets/aws-node?"
	c.until("the audit log has the timeline", func() error {
		var started struct{ QueryID string }
		text := c.aws("logs", "start-query", "--log-group-name", "/aws/eks/"+c.Cluster+"/cluster", "--output", "json",
			"--start-time", fmt.Sprint(time.Now().Add(-time.Hour).Unix()), "--end-time", fmt.Sprint(time.Now().Unix()),
			"--query-string", `filter @logStream like /^kube-apiserver-audit/
 | fields @timestamp, @message
 | sort @timestamp asc
 | filter objectRef.name == 'aws-node' AND objectRef.resource == 'daemonsets' AND verb == 'patch'
 | limit 10000`)
		if err := json.Unmarshal([]byte(text), &started); err != nil {
			return eventually.Never(err)
		}
		var results struct {
			Status  string
			Results [][]struct{ Field, Value string }
		}
		if err := eventually.Try(poll, func() error {
			if err := json.Unmarshal([]byte(c.aws("logs", "get-query-results", "--query-id", started.QueryID,
				"--output", "json")), &results); err != nil {
				return eventually.Never(err)
			}
			if results.Status != "Complete" {
				return fmt.Errorf("the query is %s", results.Status)
			}
			return nil
		}); err != nil {
			return err
		}
		dry, forced := -1, -1
		for i, row := range results.Results {
			var e event
			for _, f := range row {
				if f.Field == "@message" {
					if err := json.Unmarshal([]byte(f.Value), &e); err != nil {
						return eventually.Never(err)
					}
				}
			}
			if e.User.Username != "eks:addon-manager" {
				continue
			}
			if e.UserAgent != "Go-http-client/1.1" || len(e.User.Groups) != 1 ||
				e.User.Groups[0] != "system:authenticated" {
				c.t.Errorf("eks:addon-manager of %q comes with %s", e.User.Groups, e.UserAgent)
			}
			switch e.RequestURI {
			case path + "dryRun=All&fieldManager=eks&force=false&timeout=10s":
				if e.ResponseStatus.Code != 409 || dry >= 0 {
					continue
				}
				dry = i
				causes := e.ResponseObject.Details.Causes
				if e.ResponseStatus.Reason != "Conflict" || len(causes) < 2 ||
					causes[0].Reason != "FieldManagerConflict" ||
					causes[0].Message != `conflict with "kubectl-client-side-apply" using apps/v1` ||
					causes[0].Field != `.spec.template.spec.containers[name="aws-eks-nodeagent"].image` {
					c.t.Errorf("the dry run was answered %s", harness.Text(e))
				}
			case path + "fieldManager=eks&force=true&timeout=10s":
				if e.ResponseStatus.Code == 200 && forced < 0 {
					forced = i
					if m := e.ResponseObject.Metadata.ManagedFields; !strings.Contains(harness.Text(m),
						`{"Manager":"eks","Operation":"Apply"}`) {
						c.t.Errorf("what was forced is managed by %s", harness.Text(m))
					}
				}
			}
		}
		if dry < 0 || forced < dry {
			return fmt.Errorf("of %d patches, the dry run with conflicts is number %d, and the forced one %d",
				len(results.Results), dry, forced)
		}
		return nil
	})
}
