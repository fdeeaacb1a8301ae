package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

const connectorRole = "arn:aws:iam::" + ekstest.Account + ":role/connector"

// newConnected returns a fixture with the role of a connector.
func newConnected(t *testing.T) *ekstest.Fixture {
	t.Helper()
	w := ekstest.New(t)
	ekstest.Put(t, record.Roles(w.Store), record.RoleKey(ekstest.Account, "connector"), record.Role{
		Account: ekstest.Account, Path: "/", Name: "connector", Trust: `{"Version":"2012-10-17","Statement":[{"Effect":` +
			`"Allow","Principal":{"Service":"ssm.amazonaws.com"},"Action":"sts:AssumeRole"}]}`,
	})
	return w
}

// registration returns a good request, with an edit (optional).
func registration(name string, edit func(*eks.RegisterClusterInput)) *eks.RegisterClusterInput {
	in := &eks.RegisterClusterInput{Name: &name, ConnectorConfig: &types.ConnectorConfigRequest{
		Provider: types.ConnectorConfigProviderGke, RoleArn: aws.String(connectorRole)}}
	if edit != nil {
		edit(in)
	}
	return in
}

// A connected cluster is a record that waits for its connector until its activation expires.
func TestConnectedClusterLife(t *testing.T) {
	t.Parallel()
	w, ctx := newConnected(t), t.Context()
	w.Create("own")
	in := registration("far", func(in *eks.RegisterClusterInput) {
		in.Tags, in.ClientRequestToken = map[string]string{"team": "a"}, aws.String("once")
	})
	out, err := w.Client.RegisterCluster(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	c := out.Cluster
	if k := c.ConnectorConfig; c.Status != types.ClusterStatusPending || aws.ToString(c.Arn) != ekstest.ClusterARN+"far" ||
		k == nil || aws.ToString(k.Provider) != "GKE" || aws.ToString(k.RoleArn) != connectorRole ||
		len(aws.ToString(k.ActivationId)) != 36 || len(aws.ToString(k.ActivationCode)) != 20 ||
		!k.ActivationExpiry.Equal(ekstest.Today.Add(72*time.Hour)) || c.Tags["team"] != "a" {
		t.Errorf("registered %+v with %+v", c, c.ConnectorConfig)
	}
	again, err := w.Client.RegisterCluster(ctx, in)
	if err != nil || cmp.Diff(c, again.Cluster, ekstest.IgnoreUnexported()) != "" {
		t.Errorf("the same request again: %+v, %v", again, err)
	}
	if d := cmp.Diff([]string{ekstest.Account + "/eks.amazonaws.com", ekstest.Account + "/eks-connector.amazonaws.com"},
		w.Linked); d != "" {
		t.Errorf("service-linked roles:\n%s", d)
	}
	pass := w.Target("iam:PassRole")
	if pass.Resource != connectorRole || pass.Conditions["iam:PassedToService"][0] != "ssm.amazonaws.com" {
		t.Errorf("passed %+v", pass)
	}

	seen := w.Describe("far")
	if seen.ConnectorConfig.ActivationCode != nil || seen.Status != types.ClusterStatusPending || seen.Version != nil {
		t.Errorf("described %+v", seen)
	}
	list := func(include ...string) []string {
		t.Helper()
		out, err := w.Client.ListClusters(ctx, &eks.ListClustersInput{Include: include})
		if err != nil {
			t.Fatal(err)
		}
		return out.Clusters
	}
	if d := cmp.Diff([][]string{{"own"}, {"far", "own"}}, [][]string{list(), list("all")}); d != "" {
		t.Errorf("lists:\n%s", d)
	}
	page, err := w.Client.ListClusters(ctx, &eks.ListClustersInput{Include: []string{"all"}, MaxResults: aws.Int32(1)})
	if err != nil || page.NextToken == nil || page.Clusters[0] != "far" {
		t.Errorf("page %+v, %v", page, err)
	}
	if _, err := w.Client.TagResource(ctx, &eks.TagResourceInput{ResourceArn: c.Arn,
		Tags: map[string]string{"stage": "dev"}}); err != nil {
		t.Fatal(err)
	}
	if seen := w.Describe("far"); seen.Tags["stage"] != "dev" || seen.Tags["team"] != "a" {
		t.Errorf("tags %v", seen.Tags)
	}

	// The connector does not come in time.
	row, err := record.ConnectedClusters(w.Store).Modify(ctx, record.ClusterKey(ekstest.Account, ekstest.Region, "far"),
		func(c *record.ConnectedCluster) error { c.ActivationExpiry = ekstest.Today; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if seen := w.Describe("far"); seen.Status != types.ClusterStatusFailed || len(seen.Health.Issues) != 1 {
		t.Errorf("%s after %s: %+v", seen.Status, row.Value.ActivationExpiry, seen.Health)
	}
	left, err := w.Client.DeregisterCluster(ctx, &eks.DeregisterClusterInput{Name: aws.String("far")})
	if err != nil || aws.ToString(left.Cluster.Name) != "far" {
		t.Errorf("deregistered %+v, %v", left, err)
	}
	if d := cmp.Diff([]string{"own"}, list("all")); d != "" {
		t.Error(d)
	}
}

func TestConnectedClusterRefusals(t *testing.T) {
	t.Parallel()
	w := newConnected(t)
	w.Create("own")
	for i := range 10 {
		if _, err := w.Client.RegisterCluster(t.Context(), registration(fmt.Sprintf("far-%d", i), nil)); err != nil {
			t.Fatal(err)
		}
	}
	type in = eks.RegisterClusterInput
	register := func(edit func(*in)) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			_, err := c.RegisterCluster(ctx, registration("new", edit))
			return err
		}
	}
	role := func(arn string) ekstest.Call {
		return register(func(in *in) { in.ConnectorConfig.RoleArn = &arn })
	}
	deregister := func(name string) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			_, err := c.DeregisterCluster(ctx, &eks.DeregisterClusterInput{Name: &name})
			return err
		}
	}
	const (
		parameter = "InvalidParameterException"
		used      = "ResourceInUseException"
		missing   = "ResourceNotFoundException"
	)
	iam := "arn:aws:iam::" + ekstest.Account + ":"
	for _, r := range []struct {
		name          string
		do            ekstest.Call
		code, message string
	}{
		{"name of a cluster", register(func(in *in) { in.Name = aws.String("own") }), used,
			"Cluster already exists with name: own"},
		{"name of a connected cluster", register(func(in *in) { in.Name = aws.String("far-0") }), used,
			"Cluster already exists with name: far-0"},
		{"one too many", register(nil), "ResourceLimitExceededException",
			"The quota of 10 registered clusters in this account and region has been reached"},
		{"name with a dot", register(func(in *in) { in.Name = aws.String("a.b") }), parameter, "…name"},
		{"empty name", register(func(in *in) { in.Name = aws.String("") }), parameter, "…name"},
		{"long name", register(func(in *in) { in.Name = aws.String(strings.Repeat("x", 101)) }), parameter, "…100"},
		{"unknown provider", register(func(in *in) { in.ConnectorConfig.Provider = "MINIKUBE" }), parameter,
			"…MINIKUBE"},
		{"no ARN", role("connector"), parameter, "…roleArn connector is not the ARN of an IAM role"},
		{"ARN of a user", role(iam + "user/alice"), parameter, "…is not the ARN of an IAM role"},
		{"role of another account", role("arn:aws:iam::444455556666:role/x"), "AccessDeniedException",
			"Cross-account pass role is not allowed."},
		{"role that does not exist", role(iam + "role/nobody"), parameter,
			"The role " + iam + "role/nobody of connectorConfig does not exist"},
		{"role that trusts EKS", role(ekstest.RoleARN), parameter, "…does not let ssm.amazonaws.com assume it"},
		{"tag of AWS", register(func(in *in) { in.Tags = map[string]string{"aws:x": "y"} }), parameter, "…reserved"},
		{"deregister none", deregister("nobody"), missing, "No connected cluster found for name: nobody."},
		{"deregister a cluster of EKS", deregister("own"), missing, "No connected cluster found for name: own."},
		{"delete a connected cluster", ekstest.DeleteCluster("far-0"), missing, "No cluster found for name: far-0."},
		{"update a connected cluster", ekstest.UpdateVersion("far-0", "1.36"), missing,
			"No cluster found for name: far-0."},
		{"create a cluster of that name", func(ctx context.Context, c *eks.Client) error {
			_, err := c.CreateCluster(ctx, ekstest.Request("far-0"))
			return err
		}, used, "Cluster already exists with name: far-0"},
		{"list something else", func(ctx context.Context, c *eks.Client) error {
			_, err := c.ListClusters(ctx, &eks.ListClustersInput{Include: []string{"ALL"}})
			return err
		}, parameter, "…ALL"},
	} {
		w.Refuses(r.name, r.do, r.code, r.message)
	}

	w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == "iam:PassRole" }
	w.Refuses("role that may not be passed", register(nil), "AccessDeniedException", "…iam:PassRole")
}
