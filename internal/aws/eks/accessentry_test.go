package eks_test

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/accesspolicy"
	"github.com/coracle-eks/coracle/internal/record"
)

const policyPrefix = "arn:aws:eks::aws:cluster-access-policy/"

// Each type of entry has its Kubernetes user and groups. A role's path is in the principal's ARN and nowhere else.
func TestCreateAccessEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("c")
	iam := "arn:aws:iam::" + account + ":"
	for _, c := range []struct {
		in       eks.CreateAccessEntryInput
		arn      string // without the id
		entry    string
		username string
		groups   []string
	}{
		{eks.CreateAccessEntryInput{PrincipalArn: aws.String(iam + "user/alice")}, "user/" + account + "/alice", "STANDARD", iam + "user/alice", []string{}},
		{
			eks.CreateAccessEntryInput{PrincipalArn: aws.String(iam + "role/teams/tooling/Admin"), KubernetesGroups: []string{"viewers", "editors", "viewers"}, Type: aws.String("STANDARD")},
			"role/" + account + "/Admin", "STANDARD", "arn:aws:sts::" + account + ":assumed-role/Admin/{{SessionName}}", []string{"viewers", "editors"},
		},
		{
			eks.CreateAccessEntryInput{PrincipalArn: aws.String("arn:aws:iam::444455556666:role/Elsewhere"), Username: aws.String("team-b:{{SessionName}}")},
			"role/444455556666/Elsewhere", "STANDARD", "team-b:{{SessionName}}", []string{},
		},
		{
			eks.CreateAccessEntryInput{PrincipalArn: aws.String(iam + "role/node"), Type: aws.String("EC2_LINUX")},
			"role/" + account + "/node", "EC2_LINUX", "system:node:{{EC2PrivateDNSName}}", []string{"system:nodes"},
		},
		{
			eks.CreateAccessEntryInput{PrincipalArn: aws.String(iam + "role/denies"), Type: aws.String("FARGATE_LINUX")},
			"role/" + account + "/denies", "FARGATE_LINUX", "system:node:{{SessionName}}", []string{"system:bootstrappers", "system:node-proxier", "system:nodes"},
		},
		{
			eks.CreateAccessEntryInput{PrincipalArn: aws.String(roleARN), Type: aws.String("EC2_WINDOWS")},
			"role/" + account + "/eks-service", "EC2_WINDOWS", "system:node:{{EC2PrivateDNSName}}", []string{"eks:kube-proxy-windows", "system:nodes"},
		},
	} {
		c.in.ClusterName = aws.String("c")
		c.in.Tags = map[string]string{"k": "v"}
		out, err := w.client.CreateAccessEntry(t.Context(), &c.in)
		if err != nil {
			t.Errorf("%s: %v", *c.in.PrincipalArn, err)
			continue
		}
		e := out.AccessEntry
		want := &types.AccessEntry{
			AccessEntryArn: e.AccessEntryArn, ClusterName: aws.String("c"), CreatedAt: aws.Time(today), ModifiedAt: aws.Time(today), KubernetesGroups: c.groups,
			PrincipalArn: c.in.PrincipalArn, Tags: map[string]string{"k": "v"}, Type: aws.String(c.entry), Username: aws.String(c.username),
		}
		if d := cmp.Diff(want, e, ignoreUnexported()); d != "" {
			t.Errorf("%s (-want +got):\n%s", *c.in.PrincipalArn, d)
		}
		if !regexp.MustCompile("^arn:aws:eks:" + region + ":" + account + ":access-entry/c/" + c.arn + "/[0-9a-f-]{36}$").MatchString(*e.AccessEntryArn) {
			t.Errorf("%s: ARN %s", *c.in.PrincipalArn, *e.AccessEntryArn)
		}
		described, err := w.client.DescribeAccessEntry(t.Context(), &eks.DescribeAccessEntryInput{ClusterName: aws.String("c"), PrincipalArn: c.in.PrincipalArn})
		if err != nil {
			t.Errorf("describe %s: %v", *c.in.PrincipalArn, err)
		} else if d := cmp.Diff(e, described.AccessEntry, ignoreUnexported()); d != "" {
			t.Errorf("described otherwise (-created +described):\n%s", d)
		}
	}
	var got []string
	pages := eks.NewListAccessEntriesPaginator(w.client, &eks.ListAccessEntriesInput{ClusterName: aws.String("c"), MaxResults: aws.Int32(3)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page.AccessEntries...)
	}
	want := []string{iam + "role/denies", roleARN, iam + "role/node", iam + "role/teams/tooling/Admin", rootARN, iam + "user/alice", "arn:aws:iam::444455556666:role/Elsewhere"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("listed (-want +got):\n%s", d)
	}
}

func TestCreateAccessEntryAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("c")
	in := &eks.CreateAccessEntryInput{ClusterName: aws.String("c"), PrincipalArn: aws.String("arn:aws:iam::" + account + ":user/alice"), ClientRequestToken: aws.String("t")}
	first, err := w.client.CreateAccessEntry(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.client.CreateAccessEntry(t.Context(), in)
	if err != nil || *again.AccessEntry.AccessEntryArn != *first.AccessEntry.AccessEntryArn {
		t.Errorf("the same request: %+v, %v", again, err)
	}
	in.ClientRequestToken = aws.String("u")
	_, err = w.client.CreateAccessEntry(t.Context(), in)
	if got, want := failureOf(t, err), (failure{"ResourceInUseException", 409, "The specified access entry resource is already in use on this cluster."}); got != want {
		t.Errorf("another token: %v, want %v", got, want)
	}
	// Of an earlier cluster of that name, nothing counts.
	put(w, record.AccessEntries(w.store), record.AccessEntryKey(account, region, "c", roleARN), record.AccessEntry{ClusterID: "OLD", PrincipalARN: roleARN, Type: "STANDARD"})
	_, err = w.client.DescribeAccessEntry(t.Context(), &eks.DescribeAccessEntryInput{ClusterName: aws.String("c"), PrincipalArn: aws.String(roleARN)})
	if f := failureOf(t, err); f.code != "ResourceNotFoundException" {
		t.Errorf("an entry of an earlier cluster: %v", f)
	}
	in.PrincipalArn = aws.String(roleARN)
	if _, err := w.client.CreateAccessEntry(t.Context(), in); err != nil {
		t.Errorf("over an entry of an earlier cluster: %v", err)
	}
}

func TestUpdateAndDeleteAccessEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("c")
	admin := aws.String("arn:aws:iam::" + account + ":role/teams/tooling/Admin")
	if _, err := w.client.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: aws.String("c"), PrincipalArn: admin, KubernetesGroups: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in       eks.UpdateAccessEntryInput
		username string
		groups   []string
	}{
		{eks.UpdateAccessEntryInput{Username: aws.String("ops:{{SessionName}}")}, "ops:{{SessionName}}", []string{"a"}},
		{eks.UpdateAccessEntryInput{KubernetesGroups: []string{"b", "c"}}, "ops:{{SessionName}}", []string{"b", "c"}},
		{eks.UpdateAccessEntryInput{KubernetesGroups: []string{}}, "ops:{{SessionName}}", []string{}},
		{eks.UpdateAccessEntryInput{Username: aws.String("arn:aws:sts::" + account + ":assumed-role/Admin/{{SessionName}}")}, "arn:aws:sts::" + account + ":assumed-role/Admin/{{SessionName}}", []string{}},
	} {
		c.in.ClusterName, c.in.PrincipalArn = aws.String("c"), admin
		out, err := w.client.UpdateAccessEntry(t.Context(), &c.in)
		if err != nil {
			t.Errorf("%+v: %v", c.in, err)
		} else if *out.AccessEntry.Username != c.username || !slices.Equal(out.AccessEntry.KubernetesGroups, c.groups) {
			t.Errorf("updated to %s %v, want %s %v", *out.AccessEntry.Username, out.AccessEntry.KubernetesGroups, c.username, c.groups)
		}
	}
	if _, err := w.client.DeleteAccessEntry(t.Context(), &eks.DeleteAccessEntryInput{ClusterName: aws.String("c"), PrincipalArn: admin}); err != nil {
		t.Fatal(err)
	}
	_, err := w.client.DeleteAccessEntry(t.Context(), &eks.DeleteAccessEntryInput{ClusterName: aws.String("c"), PrincipalArn: admin})
	want := failure{"ResourceNotFoundException", 404, "The specified principalArn could not be found. You can view your available access entries with 'list-access-entries'."}
	if got := failureOf(t, err); got != want {
		t.Errorf("deleted twice: %v, want %v", got, want)
	}
}

func TestAccessPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("c")
	cluster, alice := aws.String("c"), aws.String("arn:aws:iam::"+account+":user/alice")
	if _, err := w.client.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: cluster, PrincipalArn: alice}); err != nil {
		t.Fatal(err)
	}
	associate := func(policy string, scope types.AccessScopeType, namespaces ...string) {
		t.Helper()
		out, err := w.client.AssociateAccessPolicy(t.Context(), &eks.AssociateAccessPolicyInput{
			ClusterName: cluster, PrincipalArn: alice, PolicyArn: aws.String(policyPrefix + policy), AccessScope: &types.AccessScope{Type: scope, Namespaces: namespaces},
		})
		if err != nil {
			t.Fatal(err)
		}
		if a := out.AssociatedAccessPolicy; *a.PolicyArn != policyPrefix+policy || a.AccessScope.Type != scope || *out.PrincipalArn != *alice {
			t.Errorf("associated %+v", a)
		}
	}
	associated := func() (list []string) {
		pages := eks.NewListAssociatedAccessPoliciesPaginator(w.client, &eks.ListAssociatedAccessPoliciesInput{ClusterName: cluster, PrincipalArn: alice, MaxResults: aws.Int32(1)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range page.AssociatedAccessPolicies {
				list = append(list, fmt.Sprint((*a.PolicyArn)[len(policyPrefix):], " ", a.AccessScope.Type, " ", a.AccessScope.Namespaces))
			}
		}
		return list
	}
	associate("AmazonEKSViewPolicy", types.AccessScopeTypeCluster)
	associate("AmazonEKSEditPolicy", types.AccessScopeTypeNamespace, "dev-*", "staging")
	associate("AmazonEKSViewPolicy", types.AccessScopeTypeNamespace, "prod") // again: another scope
	if d := cmp.Diff([]string{"AmazonEKSEditPolicy namespace [dev-* staging]", "AmazonEKSViewPolicy namespace [prod]"}, associated()); d != "" {
		t.Errorf("associated (-want +got):\n%s", d)
	}
	holders, err := w.client.ListAccessEntries(t.Context(), &eks.ListAccessEntriesInput{ClusterName: cluster, AssociatedPolicyArn: aws.String(policyPrefix + "AmazonEKSViewPolicy")})
	if err != nil || !slices.Equal(holders.AccessEntries, []string{*alice}) {
		t.Errorf("holders of the view policy: %v, %v", holders, err)
	}
	remove := &eks.DisassociateAccessPolicyInput{ClusterName: cluster, PrincipalArn: alice, PolicyArn: aws.String(policyPrefix + "AmazonEKSEditPolicy")}
	if _, err := w.client.DisassociateAccessPolicy(t.Context(), remove); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.DisassociateAccessPolicy(t.Context(), remove); failureOf(t, err).code != "ResourceNotFoundException" {
		t.Errorf("disassociated twice: %v", err)
	}
	if d := cmp.Diff([]string{"AmazonEKSViewPolicy namespace [prod]"}, associated()); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
	all, err := w.client.ListAccessPolicies(t.Context(), &eks.ListAccessPoliciesInput{})
	if err != nil || len(all.AccessPolicies) != len(accesspolicy.All()) {
		t.Errorf("listed %d policies, %v", len(all.AccessPolicies), err)
	}
}

// Two clients associate different policies with one entry at once: both are there.
func TestAssociateTwoAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("c")
	errs := make(chan error)
	names := []string{"AmazonEKSViewPolicy", "AmazonEKSEditPolicy", "AmazonEKSAdminPolicy", "AmazonEKSSecretReaderPolicy"}
	for _, n := range names {
		go func() {
			_, err := w.client.AssociateAccessPolicy(t.Context(), &eks.AssociateAccessPolicyInput{
				ClusterName: aws.String("c"), PrincipalArn: aws.String(rootARN), PolicyArn: aws.String(policyPrefix + n), AccessScope: &types.AccessScope{Type: types.AccessScopeTypeCluster},
			})
			errs <- err
		}()
	}
	for range names {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	out, err := w.client.ListAssociatedAccessPolicies(t.Context(), &eks.ListAssociatedAccessPoliciesInput{ClusterName: aws.String("c"), PrincipalArn: aws.String(rootARN)})
	if err != nil || len(out.AssociatedAccessPolicies) != len(names)+1 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestTags(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("c", func(in *eks.CreateClusterInput) { in.Tags = map[string]string{"a": "1"} })
	entry, err := w.client.DescribeAccessEntry(t.Context(), &eks.DescribeAccessEntryInput{ClusterName: aws.String("c"), PrincipalArn: aws.String(rootARN)})
	if err != nil {
		t.Fatal(err)
	}
	for arn, want := range map[string]map[string]string{
		clusterARN + "c":                  {"a": "1", "b": "3"},
		*entry.AccessEntry.AccessEntryArn: {"b": "3"},
	} {
		tag := func(tags map[string]string) {
			if _, err := w.client.TagResource(t.Context(), &eks.TagResourceInput{ResourceArn: &arn, Tags: tags}); err != nil {
				t.Fatalf("tag %s: %v", arn, err)
			}
		}
		tag(map[string]string{"b": "2", "c": ""})
		tag(map[string]string{"b": "3"})
		if _, err := w.client.UntagResource(t.Context(), &eks.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{"c", "not-there"}}); err != nil {
			t.Fatal(err)
		}
		got, err := w.client.ListTagsForResource(t.Context(), &eks.ListTagsForResourceInput{ResourceArn: &arn})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got.Tags); d != "" {
			t.Errorf("%s (-want +got):\n%s", arn, d)
		}
	}
	if d := cmp.Diff(map[string]string{"a": "1", "b": "3"}, w.describe("c").Tags); d != "" {
		t.Errorf("described (-want +got):\n%s", d)
	}
}

// What a cluster doesn't have is listed as nothing, not as an error.
func TestListsOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("c")
	ctx, c := t.Context(), aws.String("c")
	counts := map[string]func() (int, error){
		"nodegroups": func() (int, error) {
			o, err := w.client.ListNodegroups(ctx, &eks.ListNodegroupsInput{ClusterName: c})
			return len(o.Nodegroups), err
		},
		"fargate profiles": func() (int, error) {
			o, err := w.client.ListFargateProfiles(ctx, &eks.ListFargateProfilesInput{ClusterName: c})
			return len(o.FargateProfileNames), err
		},
		"addons": func() (int, error) {
			o, err := w.client.ListAddons(ctx, &eks.ListAddonsInput{ClusterName: c})
			return len(o.Addons), err
		},
		"pod identity associations": func() (int, error) {
			o, err := w.client.ListPodIdentityAssociations(ctx, &eks.ListPodIdentityAssociationsInput{ClusterName: c})
			return len(o.Associations), err
		},
		"identity provider configs": func() (int, error) {
			o, err := w.client.ListIdentityProviderConfigs(ctx, &eks.ListIdentityProviderConfigsInput{ClusterName: c})
			return len(o.IdentityProviderConfigs), err
		},
		"capabilities": func() (int, error) {
			o, err := w.client.ListCapabilities(ctx, &eks.ListCapabilitiesInput{ClusterName: c})
			return len(o.Capabilities), err
		},
	}
	for what, count := range counts {
		if n, err := count(); err != nil || n != 0 {
			t.Errorf("%s: %d, %v", what, n, err)
		}
	}
	c = aws.String("nobody")
	for what, list := range map[string]func() error{
		"nodegroups": func() error {
			_, err := w.client.ListNodegroups(ctx, &eks.ListNodegroupsInput{ClusterName: c})
			return err
		},
		"addons":   func() error { _, err := w.client.ListAddons(ctx, &eks.ListAddonsInput{ClusterName: c}); return err },
		"updates":  func() error { _, err := w.client.ListUpdates(ctx, &eks.ListUpdatesInput{Name: c}); return err },
		"insights": func() error { _, err := w.client.ListInsights(ctx, &eks.ListInsightsInput{ClusterName: c}); return err },
	} {
		if f := failureOf(t, list()); f.code != "ResourceNotFoundException" || f.status != 404 {
			t.Errorf("%s of no cluster: %v", what, f)
		}
	}
}

// Entries remember whom they were made for, not only under which name: users can be renamed.
func TestEntriesKnowTheirPrincipal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("c")
	put(w, record.Users(w.store), record.UserKey(account, "bob"), record.User{Account: account, Path: "/", Name: "bob", ID: "AIDABOB"})
	for _, arn := range []string{"arn:aws:iam::" + account + ":user/bob", "arn:aws:iam::444455556666:user/bob"} {
		if _, err := w.client.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: aws.String("c"), PrincipalArn: aws.String(arn)}); err != nil {
			t.Fatal(err)
		}
	}
	for arn, want := range map[string]string{rootARN: account, "arn:aws:iam::" + account + ":user/bob": "AIDABOB", "arn:aws:iam::444455556666:user/bob": ""} {
		row, err := record.AccessEntries(w.store).Get(t.Context(), record.AccessEntryKey(account, region, "c", arn))
		if err != nil || row.Value.PrincipalID != want {
			t.Errorf("the entry of %s is of %q, want %q (%v)", arn, row.Value.PrincipalID, want, err)
		}
	}
}
