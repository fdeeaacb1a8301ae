package logs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/google/go-cmp/cmp"

	coracle "github.com/coracle-eks/coracle/internal/aws/logs"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/logs/vended"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// admits lets logs be delivered to all log groups.
const admits = `{"Version":"2012-10-17","Statement":{"Effect":"Allow",` +
	`"Principal":{"Service":"delivery.logs.amazonaws.com"},"Action":["logs:CreateLogStream","logs:PutLogEvents"],` +
	`"Resource":"*"}}`

// policy puts a resource policy of the account.
func (w *fixture) policy(name, document string) {
	w.t.Helper()
	if _, err := w.client.PutResourcePolicy(w.t.Context(), &cloudwatchlogs.PutResourcePolicyInput{PolicyName: &name,
		PolicyDocument: &document}); err != nil {
		w.t.Fatalf("put resource policy %s: %v", name, err)
	}
}

// groupPolicy returns the policy that is attached to a log group, nil for none.
func (w *fixture) groupPolicy(group string) *types.ResourcePolicy {
	w.t.Helper()
	out, err := w.client.DescribeResourcePolicies(w.t.Context(), &cloudwatchlogs.DescribeResourcePoliciesInput{
		PolicyScope: types.PolicyScopeResource, ResourceArn: aws.String(groupARN + group)})
	if err != nil || len(out.ResourcePolicies) > 1 {
		w.t.Fatalf("the policies of %s are %+v, %v", group, out, err)
	}
	if len(out.ResourcePolicies) == 0 {
		return nil
	}
	return &out.ResourcePolicies[0]
}

// TestResourcePolicies takes policies of the account and of a log group through their lives.
func TestResourcePolicies(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx, c := t.Context(), w.client
	w.group("g")
	w.group("h")
	for _, name := range []string{"b", "a/b", "c"} {
		w.policy(name, admits)
	}
	w.policy("b", `{"Statement":[{"Effect":"Deny","Principal":"*","Action":"logs:*","Resource":"arn:aws:logs:*"}]}`)
	names := func(of types.PolicyScope) (all []string) {
		t.Helper()
		in := &cloudwatchlogs.DescribeResourcePoliciesInput{Limit: aws.Int32(1), PolicyScope: of}
		for {
			page, err := c.DescribeResourcePolicies(ctx, in)
			if err != nil || len(page.ResourcePolicies) != 1 {
				t.Fatalf("a page is %+v, %v", page, err)
			}
			for _, p := range page.ResourcePolicies {
				all = append(all, aws.ToString(p.PolicyName)+" "+string(p.PolicyScope)+" "+aws.ToString(p.ResourceArn))
				if p.RevisionId != nil != (p.PolicyScope == types.PolicyScopeResource) ||
					*p.LastUpdatedTime != today.UnixMilli() {
					t.Errorf("a policy is %+v", p)
				}
			}
			if in.NextToken = page.NextToken; in.NextToken == nil {
				return all
			}
		}
	}
	got := names("")
	if want := []string{"a/b ACCOUNT ", "b ACCOUNT ", "c ACCOUNT "}; !slices.Equal(got, want) {
		t.Errorf("the policies are %q, want %q", got, want)
	}
	first, err := c.PutResourcePolicy(ctx, &cloudwatchlogs.PutResourcePolicyInput{PolicyName: aws.String("n"),
		PolicyDocument: aws.String(admits), ResourceArn: aws.String(groupARN + "g")})
	if err != nil || first.RevisionId == nil || *first.ResourcePolicy.ResourceArn != groupARN+"g" {
		t.Fatalf("the policy is %+v, %v", first, err)
	}
	second, err := c.PutResourcePolicy(ctx, &cloudwatchlogs.PutResourcePolicyInput{PolicyDocument: aws.String(admits),
		ResourceArn: aws.String(groupARN + "g"), ExpectedRevisionId: first.RevisionId})
	if err != nil || *second.RevisionId == *first.RevisionId || second.ResourcePolicy.PolicyName != nil {
		t.Fatalf("the policy is %+v, %v", second, err)
	}
	if _, err := c.PutResourcePolicy(ctx, &cloudwatchlogs.PutResourcePolicyInput{PolicyDocument: aws.String(admits),
		ResourceArn: aws.String(groupARN + "h")}); err != nil {
		t.Fatal(err)
	}
	got = names(types.PolicyScopeResource)
	if want := []string{" RESOURCE " + groupARN + "g", " RESOURCE " + groupARN + "h"}; !slices.Equal(got, want) {
		t.Errorf("the policies of log groups are %q, want %q", got, want)
	}
	if p := w.groupPolicy("g"); *p.PolicyDocument != admits || *p.RevisionId != *second.RevisionId {
		t.Errorf("the policy of g is %+v", p)
	}

	// A log group takes its policy with it.
	_, err1 := c.DeleteResourcePolicy(ctx, &cloudwatchlogs.DeleteResourcePolicyInput{
		ResourceArn: aws.String(groupARN + "g"), ExpectedRevisionId: second.RevisionId})
	_, err2 := c.DeleteLogGroup(ctx, &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: aws.String("h")})
	_, err3 := c.DeleteResourcePolicy(ctx, &cloudwatchlogs.DeleteResourcePolicyInput{PolicyName: aws.String("a/b")})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	rows, err := record.LogResourcePolicies(w.store).List(ctx, "")
	if err != nil || len(rows) != 2 {
		t.Errorf("left are %+v, %v", rows, err)
	}
	w.group("h")
	if p := w.groupPolicy("h"); p != nil {
		t.Errorf("a new group has the policy %+v", p)
	}
}

// TestResourcePolicyRefusals has bad requests about resource policies. None changes anything.
func TestResourcePolicyRefusals(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx, c := t.Context(), w.client
	w.group("g")
	w.group("bare")
	w.policy("p", admits)
	if _, err := c.PutResourcePolicy(ctx, &cloudwatchlogs.PutResourcePolicyInput{PolicyDocument: aws.String(admits),
		ResourceArn: aws.String(groupARN + "g")}); err != nil {
		t.Fatal(err)
	}
	revision := *w.groupPolicy("g").RevisionId
	text := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	put := func(name, document, arn, expected string) func() error {
		return call(c.PutResourcePolicy, ctx, &cloudwatchlogs.PutResourcePolicyInput{PolicyName: text(name),
			PolicyDocument: text(document), ResourceArn: text(arn), ExpectedRevisionId: text(expected)})
	}
	remove := func(name, arn, expected string) func() error {
		return call(c.DeleteResourcePolicy, ctx, &cloudwatchlogs.DeleteResourcePolicyInput{PolicyName: text(name),
			ResourceArn: text(arn), ExpectedRevisionId: text(expected)})
	}
	describe := func(arn string, of types.PolicyScope, limit int32) func() error {
		return call(c.DescribeResourcePolicies, ctx, &cloudwatchlogs.DescribeResourcePoliciesInput{
			ResourceArn: text(arn), PolicyScope: of, Limit: &limit})
	}
	statement := func(members string) string { return `{"Version":"2012-10-17","Statement":[{` + members + `}]}` }
	const (
		invalid = "InvalidParameterException"
		missing = "ResourceNotFoundException"
		whole   = `"Effect":"Allow","Principal":{"Service":"es.amazonaws.com"},"Action":"logs:PutLogEvents","Resource":"*"`
	)
	group := groupARN + "g"
	for _, tt := range []struct {
		name       string
		do         func() error
		code, says string
	}{
		{"no name", put("", admits, "", ""), invalid, "policyName is required"},
		{"a long name", put(strings.Repeat("x", 256), admits, "", ""), invalid, "less than or equal to 255"},
		{"no document", put("p", "", "", ""), invalid, "policyDocument is required"},
		{"no JSON", put("p", "{", "", ""), invalid, "Syntax errors in policy"},
		{"a long document", put("p", admits+strings.Repeat(" ", 5121-len(admits)), "", ""), invalid,
			"less than or equal to 5120"},
		{"no statement", put("p", `{"Version":"2012-10-17"}`, "", ""), invalid, "Statement"},
		{"a version", put("p", strings.Replace(statement(whole), "2012", "2011", 1), "", ""), invalid, "2012-10-17"},
		{"no principal", put("p", statement(`"Effect":"Allow","Action":"logs:*","Resource":"*"`), "", ""), invalid,
			"Principal"},
		{"no resource", put("p", statement(`"Effect":"Allow","Principal":"*","Action":"logs:*"`), "", ""), invalid,
			"resources"},
		{"no service", put("p", strings.Replace(statement(whole), "es.amazonaws.com", "es", 1), "", ""), invalid,
			`"SERVICE":"es"`},
		{"an effect", put("p", strings.Replace(statement(whole), "Allow", "Permit", 1), "", ""), invalid, "Permit"},
		{"a revision of the account", put("p", admits, "", revision), invalid, "expectedRevisionId"},
		{"a resource", put("", admits, "arn:aws:s3:::b", ""), invalid, "arn:aws:s3:::b is not the ARN of a log group"},
		{"a log group in the other form", put("", admits, group+":*", ""), invalid, "without :*"},
		{"a log group of another account", put("", admits, strings.Replace(group, account, "444455556666", 1), ""),
			invalid, account},
		{"a log group that is not there", put("", admits, groupARN+"none", ""), missing, "log group"},
		{"no revision", put("", admits, group, ""), invalid, "expectedRevisionId is required"},
		{"another revision", put("", admits, group, "x"), "OperationAbortedException", "since revision x"},
		{"a revision of no policy", put("", admits, groupARN+"bare", "x"), missing, "has no resource policy"},
		{"a policy that is not there", remove("none", "", ""), missing, "Policy with name [none] does not exist."},
		{"delete nothing", remove("", "", ""), invalid, "policyName is required"},
		{"delete at a revision", remove("p", "", revision), invalid, "expectedRevisionId"},
		{"delete of no group", remove("", "g", ""), invalid, "is not the ARN"},
		{"delete at no revision", remove("", group, ""), invalid, "expectedRevisionId is required"},
		{"delete at another revision", remove("", group, "x"), "OperationAbortedException", "since revision x"},
		{"delete by another name", remove("other", group, revision), missing, "no such resource policy"},
		{"delete where there is none", remove("", groupARN+"bare", revision), missing, "no such resource policy"},
		{"of a log group, of the account", describe(group, "", 1), invalid, "policyScope to RESOURCE"},
		{"of no log group", describe("g", types.PolicyScopeResource, 1), invalid, "is not the ARN"},
		{"a scope", describe("", "ALL", 1), invalid, "policyScope"},
		{"a limit", describe("", "", 51), invalid, "less than or equal to 50"},
	} {
		err := tt.do()
		if err == nil {
			t.Errorf("%s: there is no error", tt.name)
			continue
		}
		if f := failureOf(t, err); f.code != tt.code || !strings.Contains(f.message, tt.says) {
			t.Errorf("%s: %v, want %s with %q", tt.name, f, tt.code, tt.says)
		}
	}
	if got := *w.groupPolicy("g").RevisionId; got != revision {
		t.Errorf("the policy of g has the revision %s, and had %s", got, revision)
	}
	// The quota, which policies of log groups do not count for.
	for n := range 9 {
		w.policy(fmt.Sprint(n), admits)
	}
	if f := failureOf(t, put("one more", admits, "", "")()); f.code != "LimitExceededException" ||
		!strings.Contains(f.message, "has 10 resource policies") {
		t.Errorf("beyond the quota: %v", f)
	}
	w.policy("p", statement(whole))
	if err := put("", admits, groupARN+"bare", "")(); err != nil {
		t.Errorf("a log group beside the quota: %v", err)
	}
}

// TestResourcePolicyTargets has the permissions that requests about resource policies need.
func TestResourcePolicyTargets(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx, c := t.Context(), w.client
	for _, group := range []*string{nil, aws.String(groupARN + "g")} {
		want := groupARN + ":log-stream:"
		if group != nil {
			want = groupARN + "g:log-stream:"
		}
		for action, do := range map[string]func() error{
			"PutResourcePolicy": call(c.PutResourcePolicy, ctx,
				&cloudwatchlogs.PutResourcePolicyInput{ResourceArn: group}),
			"DescribeResourcePolicies": call(c.DescribeResourcePolicies, ctx,
				&cloudwatchlogs.DescribeResourcePoliciesInput{ResourceArn: group}),
			"DeleteResourcePolicy": call(c.DeleteResourcePolicy, ctx,
				&cloudwatchlogs.DeleteResourcePolicyInput{ResourceArn: group}),
		} {
			w.mu.Lock()
			w.Asked = nil
			w.mu.Unlock()
			_ = do() // it is refused later
			if targets := w.Targets("logs:" + action); len(targets) != 1 || targets[0].Resource != want {
				t.Errorf("%s asks for %+v, want %s", action, targets, want)
			}
		}
	}
}

// TestDeliveriesAreAdmitted creates deliveries that resource policies let in, or get to for those who may change them.
func TestDeliveriesAreAdmitted(t *testing.T) {
	t.Parallel()
	const service = `"Principal":{"Service":"delivery.logs.amazonaws.com"}`
	allow := func(principal, actions, resource, rest string) string {
		return `{"Effect":"Allow",` + principal + `,"Action":[` + actions + `],"Resource":"` + resource + `"` + rest + `}`
	}
	const both, refused = `"logs:CreateLogStream","logs:PutLogEvents"`, "AccessDeniedException"
	of := func(statements ...string) string { return `{"Statement":[` + strings.Join(statements, ",") + `]}` }
	for name, tt := range map[string]struct {
		account, group string // documents
		denied         string // an action
		code, says     string // of the refusal
		added          bool   // whether the log group gets a statement
	}{
		"nothing":                   {added: true},
		"nothing, without Put":      {denied: "logs:PutResourcePolicy", code: refused, says: "logs:PutResourcePolicy"},
		"nothing, without Describe": {denied: "logs:DescribeResourcePolicies", code: refused, says: "logs:Describe"},
		"nothing, without groups":   {denied: "logs:DescribeLogGroups", code: refused, says: "Put one"},
		"the account's":             {account: of(allow(service, both, "*", "")), denied: "logs:PutResourcePolicy"},
		"the account's, of vended logs": {account: of(allow(service, both, groupARN+"/aws/vendedlogs/*", "")),
			denied: "logs:PutResourcePolicy"},
		"the group's": {group: of(allow(service, both, groupARN+"/aws/vendedlogs/g:*", "")),
			denied: "logs:PutResourcePolicy"},
		"of both": {account: of(allow(service, `"logs:CreateLogStream"`, "*", "")),
			group: of(allow(service, `"logs:Put*"`, "*", "")), denied: "logs:PutResourcePolicy"},
		"by the source": {account: of(allow(service, both, "*", `,"Condition":{"StringEquals":{"aws:SourceAccount":"`+
			account+`"},"ArnLike":{"aws:SourceArn":"`+sourceARN+`web"}}`)), denied: "logs:PutResourcePolicy"},
		"of another source": {account: of(allow(service, both, "*", `,"Condition":{"ArnLike":{"aws:SourceArn":"`+
			sourceARN+`other"}}`)), added: true},
		"of another service": {account: of(allow(`"Principal":{"Service":"es.amazonaws.com"}`, both, "*", "")), added: true},
		"of another group":   {account: of(allow(service, both, groupARN+"other:*", "")), added: true},
		"without events":     {group: of(allow(service, `"logs:CreateLogStream"`, "*", "")), added: true},
		"the group's one": {group: `{"Version":"2012-10-17","Id":"i","Statement":{"Sid":"AWSLogDeliveryWrite20150319",` +
			`"Effect":"Allow","Principal":{"Service":"es.amazonaws.com"},"Action":"logs:*","Resource":"*"}}`, added: true},
		"a deny": {account: of(allow(service, both, "*", ""), `{"Effect":"Deny","Principal":"*",`+
			`"Action":"logs:PutLogEvents","Resource":"*"}`), code: refused, says: "explicit deny in a resource-based policy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			ctx, c := t.Context(), w.client
			const group = "/aws/vendedlogs/g"
			w.group(group)
			if tt.account != "" {
				w.policy("p", tt.account)
			}
			if tt.group != "" {
				if _, err := c.PutResourcePolicy(ctx, &cloudwatchlogs.PutResourcePolicyInput{
					ResourceArn: aws.String(groupARN + group), PolicyDocument: &tt.group}); err != nil {
					t.Fatal(err)
				}
			}
			balancer := w.balancer(record.ApplicationLoadBalancer, "web")
			_, err1 := c.PutDeliverySource(ctx, &cloudwatchlogs.PutDeliverySourceInput{Name: aws.String("web"),
				LogType: aws.String(vended.ApplicationAccess), ResourceArn: &balancer})
			_, err2 := c.PutDeliveryDestination(ctx, &cloudwatchlogs.PutDeliveryDestinationInput{Name: aws.String("d"),
				DeliveryDestinationConfiguration: toGroup(group)})
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			before := w.groupPolicy(group)
			w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == tt.denied }
			_, err := c.CreateDelivery(ctx, &cloudwatchlogs.CreateDeliveryInput{DeliverySourceName: aws.String("web"),
				DeliveryDestinationArn: aws.String(destinationARN + "d")})
			w.Deny = nil
			if tt.code != "" {
				f := failureOf(t, err)
				if f.code != tt.code || !strings.Contains(f.message, tt.says) ||
					!strings.HasPrefix(f.message, "Access Denied for this Delivery Destination") {
					t.Errorf("the refusal is %v, want %s with %q", f, tt.code, tt.says)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			after := w.groupPolicy(group)
			if tt.added == cmp.Equal(before, after, cmp.AllowUnexported(types.ResourcePolicy{})) {
				t.Errorf("the policy of the log group is %+v, and was %+v", after, before)
			}
			source := record.LogDeliverySource{Account: account, Region: region, Name: "web", ResourceARN: balancer,
				LogType: vended.ApplicationAccess}
			_, _, err = coracle.NewDeliveryStreams(w.store).Ensure(ctx, source, group)
			if errors.Is(err, vended.ErrRefused) != (tt.code != "") {
				t.Errorf("what is delivered: %v", err)
			}
		})
	}
}

// TestAdmittingDocument has the statement as AWS documents it, and keeps what was there.
func TestAdmittingDocument(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx, c := t.Context(), w.client
	w.group("g")
	id := w.deliver("web", w.balancer(record.ApplicationLoadBalancer, "web"))
	statement := func(sid string) string {
		return `{"Sid":"` + sid + `","Effect":"Allow","Principal":{"Service":["delivery.logs.amazonaws.com"]},` +
			`"Action":["logs:CreateLogStream","logs:PutLogEvents"],"Resource":["` + groupARN + `g:log-stream:*"],` +
			`"Condition":{"ArnLike":{"aws:SourceArn":["arn:aws:logs:` + region + `:` + account + `:*"]},` +
			`"StringEquals":{"aws:SourceAccount":["` + account + `"]}}}`
	}
	made := w.groupPolicy("g")
	want := `{"Version":"2012-10-17","Statement":[` + statement("AWSLogDeliveryWrite20150319") + `]}`
	if *made.PolicyDocument != want || *made.PolicyName != "AWSLogDeliveryWrite20150319" {
		t.Errorf("the policy is %s %s, want %s", aws.ToString(made.PolicyName), *made.PolicyDocument, want)
	}

	// Another delivery to the group needs nothing more, and one to a group with another policy adds to that.
	w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == "logs:PutResourcePolicy" }
	w.deliver("second", w.balancer(record.ApplicationLoadBalancer, "second"))
	w.Deny = nil
	given := `{"Version":"2012-10-17","Id":"mine","Statement":[{"Sid":"AWSLogDeliveryWrite20150319","Effect":"Allow",` +
		`"Principal":{"Service":"es.amazonaws.com"},"Action":"logs:*","Resource":"*"}]}`
	_, err1 := c.PutResourcePolicy(ctx, &cloudwatchlogs.PutResourcePolicyInput{ResourceArn: aws.String(groupARN + "g"),
		PolicyDocument: &given, ExpectedRevisionId: made.RevisionId})
	_, err2 := c.DeleteDelivery(ctx, &cloudwatchlogs.DeleteDeliveryInput{Id: &id})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	w.deliver("third", w.balancer(record.ApplicationLoadBalancer, "third"))
	after := w.groupPolicy("g")
	if want := strings.TrimSuffix(given, "]}") + "," + statement("AWSLogDeliveryWrite201503191") + "]}"; *after.
		PolicyDocument != want || after.PolicyName != nil || *after.RevisionId == *made.RevisionId {
		t.Errorf("the policy is %s, want %s", *after.PolicyDocument, want)
	}
	if !json.Valid([]byte(*after.PolicyDocument)) {
		t.Error("the policy is no JSON")
	}
}

// TestDestinationsAreMoved gives a destination with deliveries another log group, which must take them.
func TestDestinationsAreMoved(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.group("g")
	w.group("other")
	w.deliver("web", w.balancer(record.ApplicationLoadBalancer, "web"))
	move := call(w.client.PutDeliveryDestination, t.Context(), &cloudwatchlogs.PutDeliveryDestinationInput{
		Name: aws.String("web"), DeliveryDestinationConfiguration: toGroup("other")})
	w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == "logs:PutResourcePolicy" }
	if f := failureOf(t, move()); f.code != "AccessDeniedException" {
		t.Errorf("without permission: %v", f)
	}
	row, err := record.LogDeliveryDestinations(w.store).Get(t.Context(), record.LogDeliveryKey(account, region, "web"))
	if err != nil || row.Value.Group != "g" {
		t.Errorf("the destination is %+v, %v", row.Value, err)
	}
	w.Deny = nil
	if err := move(); err != nil || w.groupPolicy("other") == nil {
		t.Errorf("moved: %v, with the policy %+v", err, w.groupPolicy("other"))
	}
}

// TestPoliciesOfDeletedGroups creates a delivery to a log group that is not there any more.
func TestPoliciesOfDeletedGroups(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx, c := t.Context(), w.client
	w.group("g")
	id := w.deliver("web", w.balancer(record.ApplicationLoadBalancer, "web"))
	_, err1 := c.DeleteDelivery(ctx, &cloudwatchlogs.DeleteDeliveryInput{Id: &id})
	_, err2 := c.DeleteLogGroup(ctx, &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: aws.String("g")})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	create := call(c.CreateDelivery, ctx, &cloudwatchlogs.CreateDeliveryInput{DeliverySourceName: aws.String("web"),
		DeliveryDestinationArn: aws.String(destinationARN + "web")})
	if f := failureOf(t, create()); f.code != "ResourceNotFoundException" || !strings.Contains(f.message, "log group") {
		t.Errorf("without a log group: %v", f)
	}
	if _, err := record.LogResourcePolicies(w.store).Get(ctx, record.LogResourcePolicyKey(account, region,
		types.PolicyScopeResource, "g")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the policy of a group that is gone: %v", err)
	}
	w.policy("p", admits)
	if err := create(); err != nil {
		t.Errorf("with a policy of the account: %v", err)
	}
}
