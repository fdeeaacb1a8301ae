package fargate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
)

func TestCreateFargateProfileWithDefaults(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	out, err := w.Client.CreateFargateProfile(t.Context(), profile("c", "fp"))
	if err != nil {
		t.Fatal(err)
	}
	want := &types.FargateProfile{
		FargateProfileName: aws.String("fp"), ClusterName: aws.String("c"), CreatedAt: &ekstest.Today,
		FargateProfileArn: aws.String("arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account + ":fargateprofile/c/fp/" +
			w.row("c", "fp").ID),
		PodExecutionRoleArn: aws.String(ekstest.FargateRole), Subnets: []string{"subnet-a", "subnet-b"},
		Selectors: []types.FargateProfileSelector{{Namespace: aws.String("default")}},
		Status:    types.FargateProfileStatusCreating,
		Health:    &types.FargateProfileHealth{Issues: []types.FargateProfileIssue{}}, Tags: map[string]string{},
	}
	if d := cmp.Diff(want, out.FargateProfile, ekstest.IgnoreUnexported()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if !slices.Contains(w.Linked, ekstest.Account+"/eks-fargate.amazonaws.com") {
		t.Errorf("service-linked roles %v", w.Linked)
	}
	if pass := w.Target("iam:PassRole"); pass.Resource != ekstest.FargateRole ||
		!slices.Equal(pass.Conditions["iam:PassedToService"], []string{"eks-fargate-pods.amazonaws.com"}) ||
		!slices.Equal(pass.Conditions["iam:AssociatedResourceArn"], []string{*out.FargateProfile.FargateProfileArn}) {
		t.Errorf("passes %+v", pass)
	}
}

func TestCreateFargateProfileWithEverything(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	n := w.network()
	w.Create("c", subnets(n.public[0], n.private[1]))
	in := profile("c", "fp_1-A")
	in.Subnets, in.Tags = []string{n.private[1], n.private[0]}, map[string]string{"team": "a"}
	in.Selectors = []types.FargateProfileSelector{
		{Namespace: aws.String("*")},
		{Namespace: aws.String("team-?"), Labels: map[string]string{"example.com/*": "*", "a": "", "b?": "x-*-y", "c": "d",
			"*": "*"}},
		{Namespace: aws.String("kube-system"), Labels: map[string]string{"k8s-app": "kube-dns"}},
		{Namespace: aws.String("kube-system"), Labels: map[string]string{"k8s-app": "kube-dns"}},
		{Namespace: aws.String("*-prod")},
	}
	out, err := w.Client.CreateFargateProfile(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	got := out.FargateProfile
	if d := cmp.Diff(in.Selectors, got.Selectors, ekstest.IgnoreUnexported()); d != "" {
		t.Errorf("selectors (-want +got):\n%s", d)
	}
	if !slices.Equal(got.Subnets, in.Subnets) || !cmp.Equal(got.Tags, in.Tags) {
		t.Errorf("subnets %v, tags %v", got.Subnets, got.Tags)
	}
}

// eksctl sends tags without any when it is not told of some.
func TestEmptyTagsAreNone(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	in := profile("c", "fp")
	in.Tags = map[string]string{}
	out, err := w.Client.CreateFargateProfile(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.FargateProfile.Tags) > 0 {
		t.Errorf("tags %v", out.FargateProfile.Tags)
	}
	// To tag is another matter: there the tags are what is asked for.
	_, err = w.Client.TagResource(t.Context(), &eks.TagResourceInput{
		ResourceArn: out.FargateProfile.FargateProfileArn, Tags: map[string]string{},
	})
	if got := ekstest.FailureOf(t, err); got.Status != 400 {
		t.Errorf("without tags: %+v", got)
	}
}

// Without subnets a profile has the private ones of its cluster.
func TestFargateProfileHasThePrivateSubnets(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	n := w.network()
	w.Create("c", subnets(n.public[0], n.private[1], n.private[0]))
	got := w.createProfile("c", "fp").Subnets
	slices.Sort(got)
	want := slices.Sorted(slices.Values(n.private))
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The same request sent again gets the same answer; its token with another request is refused.
func TestFargateProfileRequestsAreRepeatable(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	in := profile("c", "fp")
	in.ClientRequestToken = aws.String("token-1")
	first, err := w.Client.CreateFargateProfile(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.Client.CreateFargateProfile(t.Context(), in)
	if err != nil || *again.FargateProfile.FargateProfileArn != *first.FargateProfile.FargateProfileArn {
		t.Errorf("again: %v, %v", again, err)
	}
	other := profile("c", "fp")
	other.ClientRequestToken, other.Subnets = in.ClientRequestToken, []string{"subnet-a"}
	if _, err := w.Client.CreateFargateProfile(t.Context(), other); ekstest.FailureOf(t, err).Status != 400 {
		t.Errorf("another request: %v", err)
	}
}

func TestFargateProfileQuota(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	var want []string
	for i := range 10 {
		want = append(want, fmt.Sprintf("fp-%02d", i))
		w.createProfile("c", want[i])
	}
	_, err := w.Client.CreateFargateProfile(t.Context(), profile("c", "one-more"))
	if f := ekstest.FailureOf(t, err); f.Code != "ResourceLimitExceededException" || f.Status != 400 ||
		!strings.Contains(f.Message, "CORACLE_FARGATE_PROFILES_PER_CLUSTER") {
		t.Errorf("%v", f)
	}
	if got := w.profiles("c"); !slices.Equal(got, want) {
		t.Errorf("profiles %v", got)
	}
	w.Create("other")
	w.createProfile("other", "fp")
}

// A profile shows what the controller has seen of it, and nothing that it has seen of an earlier one of the name.
func TestFargateProfileStatus(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	if got := w.createProfile("c", "fp"); got.Status != types.FargateProfileStatusActive {
		t.Errorf("made: %s", got.Status)
	}
	issues := []types.FargateProfileIssue{{Code: types.FargateProfileIssueCodeAccessDenied, Message: aws.String("no"),
		ResourceIds: []string{ekstest.FargateRole}}}
	w.observeProfile("c", "fp", record.FargateProfileState{Failed: true, Issues: issues})
	got := w.describeProfile("c", "fp")
	if d := cmp.Diff(issues, got.Health.Issues, ekstest.IgnoreUnexported()); got.Status !=
		types.FargateProfileStatusCreateFailed || d != "" {
		t.Errorf("failed: %s, issues (-want +got):\n%s", got.Status, d)
	}
	ekstest.Put(t, record.FargateProfileStates(w.Store), w.row("c", "fp").Key(),
		record.FargateProfileState{ProfileID: "earlier", Created: true, Issues: issues})
	if got := w.describeProfile("c", "fp"); got.Status != types.FargateProfileStatusCreating ||
		len(got.Health.Issues) != 0 {
		t.Errorf("of an earlier profile: %s with %+v", got.Status, got.Health)
	}
}

// A cluster is upgraded once its Fargate nodes have its version.
func TestUpgradeWithFargateNodes(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c", func(in *eks.CreateClusterInput) { in.Version = aws.String("1.35") })
	c := w.Row("c")
	pod := record.FargatePod{Account: ekstest.Account, Region: ekstest.Region, Cluster: "c", ClusterID: c.ID,
		UID: "u", InstanceID: "i-1"}
	ekstest.Put(t, record.FargatePods(w.Store), pod.Key(), pod)
	machine := record.Instance{EC2Resource: record.EC2Resource{Account: ekstest.Account, Region: ekstest.Region,
		ID: "i-1"}, ImageID: w.nodeImage("1.34"), Fargate: &record.FargateMachine{Cluster: "c"}}
	ekstest.Put(t, record.Instances(w.Store), machine.Key(), machine)
	w.Refuses("an older node", ekstest.UpdateVersion("c", "1.36"), "InvalidRequestException", "Kubelet version of "+
		"Fargate pods must be updated to match cluster version 1.35 before updating cluster version; Please recycle all "+
		"offending pod replicas")
	machine.ImageID = w.nodeImage("1.35")
	ekstest.Put(t, record.Instances(w.Store), machine.Key(), machine)
	if err := ekstest.UpdateVersion("c", "1.36")(t.Context(), w.Client); err != nil {
		t.Errorf("with a node of its version: %v", err)
	}
}
