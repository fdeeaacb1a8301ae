package access_test

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
	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// Each type of entry has its Kubernetes user and groups. A role's path is in the principal's ARN and nowhere else.
func TestCreateAccessEntry(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	iam := "arn:aws:iam::" + ekstest.Account + ":"
	for _, c := range []struct {
		in       eks.CreateAccessEntryInput
		arn      string // without the id
		entry    string
		username string
		groups   []string
	}{
		{eks.CreateAccessEntryInput{PrincipalArn: aws.String(iam + "user/alice")}, "user/" + ekstest.Account + "/alice",
			"STANDARD", iam + "user/alice", []string{}},
		{
			eks.CreateAccessEntryInput{PrincipalArn: aws.String(iam + "role/teams/tooling/Admin"),
				KubernetesGroups: []string{"viewers", "editors", "viewers"}, Type: aws.String("STANDARD")},
			"role/" + ekstest.Account + "/Admin", "STANDARD", "arn:aws:sts::" + ekstest.Account +
				":assumed-role/Admin/{{SessionName}}", []string{"viewers", "editors"},
		},
		{
			eks.CreateAccessEntryInput{PrincipalArn: aws.String("arn:aws:iam::444455556666:role/Elsewhere"),
				Username: aws.String("team-b:{{SessionName}}")},
			"role/444455556666/Elsewhere", "STANDARD", "team-b:{{SessionName}}", []string{},
		},
		{
			eks.CreateAccessEntryInput{PrincipalArn: aws.String(iam + "role/node"), Type: aws.String("EC2_LINUX")},
			"role/" + ekstest.Account + "/node", "EC2_LINUX", "system:node:{{EC2PrivateDNSName}}",
			[]string{"system:nodes"},
		},
		{
			eks.CreateAccessEntryInput{PrincipalArn: aws.String(iam + "role/denies"),
				Type: aws.String("FARGATE_LINUX")},
			"role/" + ekstest.Account + "/denies", "FARGATE_LINUX", "system:node:{{SessionName}}",
			[]string{"system:bootstrappers", "system:node-proxier", "system:nodes"},
		},
		{
			eks.CreateAccessEntryInput{PrincipalArn: aws.String(ekstest.RoleARN), Type: aws.String("EC2_WINDOWS")},
			"role/" + ekstest.Account + "/eks-service", "EC2_WINDOWS", "system:node:{{EC2PrivateDNSName}}",
			[]string{"eks:kube-proxy-windows", "system:nodes"},
		},
	} {
		c.in.ClusterName = aws.String("c")
		c.in.Tags = map[string]string{"k": "v"}
		out, err := w.Client.CreateAccessEntry(t.Context(), &c.in)
		if err != nil {
			t.Errorf("%s: %v", *c.in.PrincipalArn, err)
			continue
		}
		e := out.AccessEntry
		want := &types.AccessEntry{
			AccessEntryArn: e.AccessEntryArn, ClusterName: aws.String("c"), CreatedAt: aws.Time(ekstest.Today),
			ModifiedAt: aws.Time(ekstest.Today), KubernetesGroups: c.groups,
			PrincipalArn: c.in.PrincipalArn, Tags: map[string]string{"k": "v"}, Type: aws.String(c.entry),
			Username: aws.String(c.username),
		}
		if d := cmp.Diff(want, e, ekstest.IgnoreUnexported()); d != "" {
			t.Errorf("%s (-want +got):\n%s", *c.in.PrincipalArn, d)
		}
		if !regexp.MustCompile("^arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account + ":access-entry/c/" + c.arn +
			"/[0-9a-f-]{36}$").MatchString(*e.AccessEntryArn) {
			t.Errorf("%s: ARN %s", *c.in.PrincipalArn, *e.AccessEntryArn)
		}
		described, err := w.Client.DescribeAccessEntry(t.Context(),
			&eks.DescribeAccessEntryInput{ClusterName: aws.String("c"), PrincipalArn: c.in.PrincipalArn})
		if err != nil {
			t.Errorf("describe %s: %v", *c.in.PrincipalArn, err)
		} else if d := cmp.Diff(e, described.AccessEntry, ekstest.IgnoreUnexported()); d != "" {
			t.Errorf("described otherwise (-created +described):\n%s", d)
		}
	}
	var got []string
	pages := eks.NewListAccessEntriesPaginator(w.Client, &eks.ListAccessEntriesInput{ClusterName: aws.String("c"),
		MaxResults: aws.Int32(3)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page.AccessEntries...)
	}
	want := []string{iam + "role/denies", ekstest.RoleARN, iam + "role/node", iam + "role/teams/tooling/Admin",
		ekstest.RootARN, iam + "user/alice", "arn:aws:iam::444455556666:role/Elsewhere"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("listed (-want +got):\n%s", d)
	}
}

func TestCreateAccessEntryAgain(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	in := &eks.CreateAccessEntryInput{ClusterName: aws.String("c"), PrincipalArn: aws.String("arn:aws:iam::" +
		ekstest.Account + ":user/alice"), ClientRequestToken: aws.String("t")}
	first, err := w.Client.CreateAccessEntry(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.Client.CreateAccessEntry(t.Context(), in)
	if err != nil || *again.AccessEntry.AccessEntryArn != *first.AccessEntry.AccessEntryArn {
		t.Errorf("the same request: %+v, %v", again, err)
	}
	in.ClientRequestToken = aws.String("u")
	_, err = w.Client.CreateAccessEntry(t.Context(), in)
	if got, want := ekstest.FailureOf(t, err), (ekstest.Failure{Code: "ResourceInUseException", Status: 409,
		Message: "The specified access entry resource is already in use on this cluster."}); got != want {
		t.Errorf("another token: %v, want %v", got, want)
	}
	// Of an earlier cluster of that name, nothing counts.
	ekstest.Put(w.T, record.AccessEntries(w.Store), record.AccessEntryKey(ekstest.Account, ekstest.Region, "c",
		ekstest.RoleARN), record.AccessEntry{ClusterID: "OLD", PrincipalARN: ekstest.RoleARN, Type: "STANDARD"})
	_, err = w.Client.DescribeAccessEntry(t.Context(), &eks.DescribeAccessEntryInput{ClusterName: aws.String("c"),
		PrincipalArn: aws.String(ekstest.RoleARN)})
	if f := ekstest.FailureOf(t, err); f.Code != "ResourceNotFoundException" {
		t.Errorf("an entry of an earlier cluster: %v", f)
	}
	in.PrincipalArn = aws.String(ekstest.RoleARN)
	if _, err := w.Client.CreateAccessEntry(t.Context(), in); err != nil {
		t.Errorf("over an entry of an earlier cluster: %v", err)
	}
}

func TestUpdateAndDeleteAccessEntry(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	admin := aws.String("arn:aws:iam::" + ekstest.Account + ":role/teams/tooling/Admin")
	if _, err := w.Client.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: aws.String("c"),
		PrincipalArn: admin, KubernetesGroups: []string{"a"}}); err != nil {
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
		{eks.UpdateAccessEntryInput{Username: aws.String("arn:aws:sts::" + ekstest.Account +
			":assumed-role/Admin/{{SessionName}}")}, "arn:aws:sts::" + ekstest.Account +
			":assumed-role/Admin/{{SessionName}}", []string{}},
	} {
		c.in.ClusterName, c.in.PrincipalArn = aws.String("c"), admin
		out, err := w.Client.UpdateAccessEntry(t.Context(), &c.in)
		if err != nil {
			t.Errorf("%+v: %v", c.in, err)
		} else if *out.AccessEntry.Username != c.username || !slices.Equal(out.AccessEntry.KubernetesGroups, c.groups) {
			t.Errorf("updated to %s %v, want %s %v", *out.AccessEntry.Username, out.AccessEntry.KubernetesGroups,
				c.username, c.groups)
		}
	}
	if _, err := w.Client.DeleteAccessEntry(t.Context(), &eks.DeleteAccessEntryInput{ClusterName: aws.String("c"),
		PrincipalArn: admin}); err != nil {
		t.Fatal(err)
	}
	_, err := w.Client.DeleteAccessEntry(t.Context(), &eks.DeleteAccessEntryInput{ClusterName: aws.String("c"),
		PrincipalArn: admin})
	want := ekstest.Failure{Code: "ResourceNotFoundException", Status: 404,
		Message: "The specified principalArn could not be found. You can view your available access entries with " +
			"'list-access-entries'."}
	if got := ekstest.FailureOf(t, err); got != want {
		t.Errorf("deleted twice: %v, want %v", got, want)
	}
}

func TestAccessPolicies(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	cluster, alice := aws.String("c"), aws.String("arn:aws:iam::"+ekstest.Account+":user/alice")
	if _, err := w.Client.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: cluster,
		PrincipalArn: alice}); err != nil {
		t.Fatal(err)
	}
	associate := func(policy string, scope types.AccessScopeType, namespaces ...string) {
		t.Helper()
		out, err := w.Client.AssociateAccessPolicy(t.Context(), &eks.AssociateAccessPolicyInput{
			ClusterName: cluster, PrincipalArn: alice, PolicyArn: aws.String(ekstest.PolicyPrefix + policy),
			AccessScope: &types.AccessScope{Type: scope, Namespaces: namespaces},
		})
		if err != nil {
			t.Fatal(err)
		}
		if a := out.AssociatedAccessPolicy; *a.PolicyArn != ekstest.PolicyPrefix+policy ||
			a.AccessScope.Type != scope || *out.PrincipalArn != *alice {
			t.Errorf("associated %+v", a)
		}
	}
	associated := func() (list []string) {
		pages := eks.NewListAssociatedAccessPoliciesPaginator(w.Client,
			&eks.ListAssociatedAccessPoliciesInput{ClusterName: cluster, PrincipalArn: alice, MaxResults: aws.Int32(1)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range page.AssociatedAccessPolicies {
				list = append(list, fmt.Sprint((*a.PolicyArn)[len(ekstest.PolicyPrefix):], " ", a.AccessScope.Type, " ",
					a.AccessScope.Namespaces))
			}
		}
		return list
	}
	associate("AmazonEKSViewPolicy", types.AccessScopeTypeCluster)
	associate("AmazonEKSEditPolicy", types.AccessScopeTypeNamespace, "dev-*", "staging")
	associate("AmazonEKSViewPolicy", types.AccessScopeTypeNamespace, "prod") // again: another scope
	if d := cmp.Diff([]string{"AmazonEKSEditPolicy namespace [dev-* staging]", "AmazonEKSViewPolicy namespace [prod]"},
		associated()); d != "" {
		t.Errorf("associated (-want +got):\n%s", d)
	}
	holders, err := w.Client.ListAccessEntries(t.Context(), &eks.ListAccessEntriesInput{ClusterName: cluster,
		AssociatedPolicyArn: aws.String(ekstest.PolicyPrefix + "AmazonEKSViewPolicy")})
	if err != nil || !slices.Equal(holders.AccessEntries, []string{*alice}) {
		t.Errorf("holders of the view policy: %v, %v", holders, err)
	}
	remove := &eks.DisassociateAccessPolicyInput{ClusterName: cluster, PrincipalArn: alice,
		PolicyArn: aws.String(ekstest.PolicyPrefix + "AmazonEKSEditPolicy")}
	if _, err := w.Client.DisassociateAccessPolicy(t.Context(), remove); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Client.DisassociateAccessPolicy(t.Context(), remove); ekstest.FailureOf(t,
		err).Code != "ResourceNotFoundException" {
		t.Errorf("disassociated twice: %v", err)
	}
	if d := cmp.Diff([]string{"AmazonEKSViewPolicy namespace [prod]"}, associated()); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
	all, err := w.Client.ListAccessPolicies(t.Context(), &eks.ListAccessPoliciesInput{})
	if err != nil || len(all.AccessPolicies) != len(accesspolicy.All()) {
		t.Errorf("listed %d policies, %v", len(all.AccessPolicies), err)
	}
}

// Two clients associate different policies with one entry at once: both are there.
func TestAssociateTwoAtOnce(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	errs := make(chan error)
	names := []string{"AmazonEKSViewPolicy", "AmazonEKSEditPolicy", "AmazonEKSAdminPolicy",
		"AmazonEKSSecretReaderPolicy"}
	for _, n := range names {
		go func() {
			_, err := w.Client.AssociateAccessPolicy(t.Context(), &eks.AssociateAccessPolicyInput{
				ClusterName: aws.String("c"), PrincipalArn: aws.String(ekstest.RootARN),
				PolicyArn:   aws.String(ekstest.PolicyPrefix + n),
				AccessScope: &types.AccessScope{Type: types.AccessScopeTypeCluster},
			})
			errs <- err
		}()
	}
	for range names {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	out, err := w.Client.ListAssociatedAccessPolicies(t.Context(),
		&eks.ListAssociatedAccessPoliciesInput{ClusterName: aws.String("c"), PrincipalArn: aws.String(ekstest.RootARN)})
	if err != nil || len(out.AssociatedAccessPolicies) != len(names)+1 {
		t.Errorf("%+v, %v", out, err)
	}
}

// Entries remember whom they were made for, not only under which name: users can be renamed.
func TestEntriesKnowTheirPrincipal(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	ekstest.Put(w.T, record.Users(w.Store), record.UserKey(ekstest.Account, "bob"),
		record.User{Account: ekstest.Account, Path: "/", Name: "bob", ID: "AIDABOB"})
	ekstest.Put(w.T, record.Users(w.Store), record.UserKey("444455556666", "eve"),
		record.User{Account: "444455556666", Path: "/", Name: "eve", ID: "AIDAEVE"})
	for _, arn := range []string{"arn:aws:iam::" + ekstest.Account + ":user/bob",
		"arn:aws:iam::444455556666:user/bob", "arn:aws:iam::444455556666:user/eve"} {
		if _, err := w.Client.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: aws.String("c"),
			PrincipalArn: aws.String(arn)}); err != nil {
			t.Fatal(err)
		}
	}
	for arn, want := range map[string]string{ekstest.RootARN: ekstest.Account, "arn:aws:iam::" + ekstest.Account +
		":user/bob": "AIDABOB", "arn:aws:iam::444455556666:user/bob": "",
		"arn:aws:iam::444455556666:user/eve": "AIDAEVE"} {
		row, err := record.AccessEntries(w.Store).Get(t.Context(), record.AccessEntryKey(ekstest.Account,
			ekstest.Region, "c", arn))
		if err != nil || row.Value.PrincipalID != want {
			t.Errorf("the entry of %s is of %q, want %q (%v)", arn, row.Value.PrincipalID, want, err)
		}
	}
}
