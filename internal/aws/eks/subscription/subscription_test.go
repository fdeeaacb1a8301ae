package subscription_test

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
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// request returns a good request, with an edit (optional).
func request(name string, edit func(*eks.CreateEksAnywhereSubscriptionInput)) *eks.CreateEksAnywhereSubscriptionInput {
	in := &eks.CreateEksAnywhereSubscriptionInput{
		Name: &name, LicenseQuantity: 2, LicenseType: types.EksAnywhereSubscriptionLicenseTypeCluster,
		Term: &types.EksAnywhereSubscriptionTerm{Duration: 12, Unit: types.EksAnywhereSubscriptionTermUnitMonths},
	}
	if edit != nil {
		edit(in)
	}
	return in
}

func create(w *ekstest.Fixture, in *eks.CreateEksAnywhereSubscriptionInput) *types.EksAnywhereSubscription {
	w.T.Helper()
	out, err := w.Client.CreateEksAnywhereSubscription(w.T.Context(), in)
	if err != nil {
		w.T.Fatal(err)
	}
	return out.Subscription
}

// expire lets the term of a subscription end before today.
func expire(w *ekstest.Fixture, name string) {
	w.T.Helper()
	key := record.AnywhereSubscription{Account: ekstest.Account, Region: ekstest.Region, Name: name}.Key()
	_, err := record.AnywhereSubscriptions(w.Store).Modify(w.T.Context(), key, func(v *record.AnywhereSubscription) error {
		v.ExpiresAt = ekstest.Today.Add(-time.Hour)
		return nil
	})
	if err != nil {
		w.T.Fatal(err)
	}
}

func TestSubscriptionLife(t *testing.T) {
	t.Parallel()
	w, ctx := ekstest.New(t), t.Context()
	in := request("farm", func(in *eks.CreateEksAnywhereSubscriptionInput) {
		in.Tags, in.ClientRequestToken = map[string]string{"team": "a"}, aws.String("once")
	})
	s := create(w, in)
	arn := "arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account + ":eks-anywhere-subscription/" + *s.Id
	end := ekstest.Today.AddDate(1, 0, 0)
	want := &types.EksAnywhereSubscription{
		Id: s.Id, Arn: &arn, CreatedAt: &ekstest.Today, EffectiveDate: &ekstest.Today, ExpirationDate: &end,
		LicenseQuantity: 2, LicenseType: "Cluster", Status: aws.String("ACTIVE"), LicenseArns: []string{},
		Licenses: []types.License{}, Tags: map[string]string{"team": "a"},
		Term: &types.EksAnywhereSubscriptionTerm{Duration: 12, Unit: "MONTHS"},
	}
	if d := cmp.Diff(want, s, ekstest.IgnoreUnexported()); d != "" {
		t.Errorf("created (-want +got):\n%s", d)
	}
	if target := w.Target("eks:CreateEksAnywhereSubscription"); target.Resource != "*" {
		t.Errorf("creation is asked on %s", target.Resource)
	}
	if again := create(w, in); *again.Id != *s.Id {
		t.Errorf("the same request again made %s", *again.Id)
	}
	if _, err := w.Client.TagResource(ctx, &eks.TagResourceInput{ResourceArn: &arn,
		Tags: map[string]string{"x": "y"}}); err != nil {
		t.Fatal(err)
	}
	changed, err := w.Client.UpdateEksAnywhereSubscription(ctx,
		&eks.UpdateEksAnywhereSubscriptionInput{Id: s.Id, AutoRenew: true})
	if err != nil {
		t.Fatal(err)
	}
	want.AutoRenew, want.Tags["x"] = true, "y"
	if d := cmp.Diff(want, changed.Subscription, ekstest.IgnoreUnexported()); d != "" {
		t.Errorf("changed (-want +got):\n%s", d)
	}
	if target := w.Target("eks:UpdateEksAnywhereSubscription"); target.Resource != arn ||
		target.Conditions["aws:ResourceTag/team"][0] != "a" {
		t.Errorf("the change is asked on %+v", target)
	}

	// It renews itself, until it is told not to.
	expire(w, "farm")
	seen, err := w.Client.DescribeEksAnywhereSubscription(ctx, &eks.DescribeEksAnywhereSubscriptionInput{Id: s.Id})
	if renewed := ekstest.Today.Add(-time.Hour).AddDate(1, 0, 0); err != nil ||
		*seen.Subscription.Status != "ACTIVE" || !seen.Subscription.ExpirationDate.Equal(renewed) {
		t.Errorf("renewed: %+v, %v", seen, err)
	}
	if _, err := w.Client.UpdateEksAnywhereSubscription(ctx,
		&eks.UpdateEksAnywhereSubscriptionInput{Id: s.Id}); err != nil {
		t.Fatal(err)
	}
	expire(w, "farm")
	seen, err = w.Client.DescribeEksAnywhereSubscription(ctx, &eks.DescribeEksAnywhereSubscriptionInput{Id: s.Id})
	if err != nil || *seen.Subscription.Status != "EXPIRED" {
		t.Errorf("expired: %+v, %v", seen, err)
	}
	gone, err := w.Client.DeleteEksAnywhereSubscription(ctx, &eks.DeleteEksAnywhereSubscriptionInput{Id: s.Id})
	if err != nil || *gone.Subscription.Status != "DELETING" {
		t.Errorf("deleted: %+v, %v", gone, err)
	}
	w.Refuses("gone", describe(*s.Id), "ResourceNotFoundException", "No subscription found for id: "+*s.Id+".")
}

func describe(id string) ekstest.Call {
	return func(ctx context.Context, c *eks.Client) error {
		_, err := c.DescribeEksAnywhereSubscription(ctx, &eks.DescribeEksAnywhereSubscriptionInput{Id: &id})
		return err
	}
}

func TestListSubscriptions(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	for i := range 12 {
		create(w, request(fmt.Sprintf("s-%d", i), nil))
	}
	expire(w, "s-3")
	count := func(in *eks.ListEksAnywhereSubscriptionsInput) (all, first int) {
		t.Helper()
		pages := eks.NewListEksAnywhereSubscriptionsPaginator(w.Client, in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if all == 0 {
				first = len(page.Subscriptions)
			}
			all += len(page.Subscriptions)
		}
		return all, first
	}
	if all, first := count(&eks.ListEksAnywhereSubscriptionsInput{}); all != 12 || first != 10 {
		t.Errorf("got %d, %d on the first page", all, first)
	}
	active := []types.EksAnywhereSubscriptionStatus{types.EksAnywhereSubscriptionStatusActive}
	if all, first := count(&eks.ListEksAnywhereSubscriptionsInput{MaxResults: aws.Int32(4), IncludeStatus: active}); all !=
		11 || first != 4 {
		t.Errorf("active: got %d, %d on the first page", all, first)
	}
	expired := []types.EksAnywhereSubscriptionStatus{types.EksAnywhereSubscriptionStatusExpired}
	if all, _ := count(&eks.ListEksAnywhereSubscriptionsInput{IncludeStatus: expired}); all != 1 {
		t.Errorf("expired: got %d", all)
	}
}

func TestSubscriptionRefusals(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	active := create(w, request("farm", func(in *eks.CreateEksAnywhereSubscriptionInput) {
		in.ClientRequestToken = aws.String("once")
	}))
	old := create(w, request("old", nil))
	expire(w, "old")
	type in = eks.CreateEksAnywhereSubscriptionInput
	creates := func(edit func(*in)) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			_, err := c.CreateEksAnywhereSubscription(ctx, request("new", edit))
			return err
		}
	}
	updates := func(id string) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			_, err := c.UpdateEksAnywhereSubscription(ctx, &eks.UpdateEksAnywhereSubscriptionInput{Id: &id})
			return err
		}
	}
	deletes := func(id string) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			_, err := c.DeleteEksAnywhereSubscription(ctx, &eks.DeleteEksAnywhereSubscriptionInput{Id: &id})
			return err
		}
	}
	lists := func(most int32) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			_, err := c.ListEksAnywhereSubscriptions(ctx, &eks.ListEksAnywhereSubscriptionsInput{MaxResults: &most})
			return err
		}
	}
	const (
		parameter = "InvalidParameterException"
		invalid   = "InvalidRequestException"
		missing   = "ResourceNotFoundException"
		names     = ": it can contain only alphanumeric characters, hyphens and underscores, and must start with an " +
			"alphabetic character"
	)
	for _, r := range []struct {
		name          string
		do            ekstest.Call
		code, message string
	}{
		{"name in use", creates(func(in *in) { in.Name = aws.String("farm") }), parameter,
			"Subscription already exists with name: farm"},
		{"token in use", creates(func(in *in) {
			in.Name, in.ClientRequestToken = aws.String("farm"), aws.String("once")
			in.LicenseQuantity = 3
		}), parameter, "…was used before by a request with other parameters"},
		{"name with a digit first", creates(func(in *in) { in.Name = aws.String("1st") }), parameter,
			"The subscription name 1st is invalid" + names},
		{"name with a space", creates(func(in *in) { in.Name = aws.String("a b") }), parameter,
			"…failed to satisfy constraint: Member must satisfy regular expression pattern: ^[0-9A-Za-z][A-Za-z0-9\\-_]*"},
		{"long name", creates(func(in *in) { in.Name = aws.String(strings.Repeat("a", 101)) }), parameter,
			"…failed to satisfy constraint: Member must have length less than or equal to 100"},
		{"24 months", creates(func(in *in) { in.Term.Duration = 24 }), parameter,
			"term.duration 24 is invalid: it must be 12 or 36"},
		{"no unit", creates(func(in *in) { in.Term.Unit = "" }), parameter, "term.unit is invalid: it must be MONTHS"},
		{"years", creates(func(in *in) { in.Term.Unit = "YEARS" }), parameter, "…enum value set: [MONTHS]"},
		{"no license", creates(func(in *in) { in.LicenseQuantity = 0 }), parameter,
			"licenseQuantity 0 is invalid: it must be between 1 and 100"},
		{"too many licenses", creates(func(in *in) { in.LicenseQuantity = 101 }), parameter,
			"licenseQuantity 101 is invalid: it must be between 1 and 100"},
		{"no type", creates(func(in *in) { in.LicenseType = "" }), parameter,
			"licenseType is invalid: it must be Cluster"},
		{"reserved tag", creates(func(in *in) { in.Tags = map[string]string{"aws:x": "y"} }), parameter,
			"Tag key aws:x is invalid: the prefix aws: is reserved for system use"},
		{"describe nothing", describe("nope"), missing, "No subscription found for id: nope."},
		{"update nothing", updates("nope"), missing, "No subscription found for id: nope."},
		{"delete nothing", deletes("nope"), missing, "No subscription found for id: nope."},
		{"update an expired one", updates(*old.Id), invalid,
			"Subscription " + *old.Id + " is in EXPIRED status and can't be updated"},
		{"delete an active one", deletes(*active.Id), invalid, "Subscription " + *active.Id +
			" is in ACTIVE status and can't be deleted: only expired subscriptions can be deleted. Create a support case " +
			"to cancel a subscription within 7 days of its creation."},
		{"page of 101", lists(101), parameter, "…Member must have value less than or equal to 100"},
	} {
		w.Refuses(r.name, r.do, r.code, r.message)
	}
}

// The unmodified aws CLI makes, lists, changes and describes a subscription.
func TestCLI(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	cli := awsclient.NewCLI(t, w.URL, ekstest.Region, "eks")
	id := strings.TrimSpace(cli.Run(nil, "create-eks-anywhere-subscription", "--name", "farm", "--term",
		"unit=MONTHS,duration=36", "--license-quantity", "5", "--license-type", "Cluster", "--no-auto-renew", "--query",
		"subscription.id", "--output", "text"))
	cli.Run(nil, "update-eks-anywhere-subscription", "--id", id, "--auto-renew")
	got := strings.Fields(cli.Run(nil, "describe-eks-anywhere-subscription", "--id", id, "--query",
		"subscription.[status,term.duration,autoRenew,licenseQuantity]", "--output", "text"))
	if d := cmp.Diff([]string{"ACTIVE", "36", "True", "5"}, got); d != "" {
		t.Errorf("described (-want +got):\n%s", d)
	}
	cli.Refused("InvalidRequestException", "is in ACTIVE status and can't be deleted", "delete-eks-anywhere-subscription",
		"--id", id)
}
