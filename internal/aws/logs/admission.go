package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Logs are delivered to a log group by delivery.logs.amazonaws.com, which a resource policy of the account or of the
// group must let in. Where none does, AWS attaches one to the group for callers who may do that themselves.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/AWS-logs-infrastructure-V2-CloudWatchLogs.html

// deliverer is the service that delivers logs, as policies name it.
const deliverer = "delivery.logs.amazonaws.com"

// deliveryActions are what the deliverer does.
var deliveryActions = []string{"logs:CreateLogStream", "logs:PutLogEvents"}

// admissionSteps bounds the work of evaluating the resource policies for the deliveries of a request, or one: some
// milliseconds, as a delivery is decided about each time that something is delivered.
const admissionSteps = 1 << 22

// decideDelivery decides by the resource policies whether a source may be delivered to a log group.
func (s *Service) decideDelivery(ctx context.Context, budget *policy.Budget, source record.LogDeliverySource,
	group string) (d policy.Decision, err error) {
	policies, err := s.policiesOf(ctx, source.Account, source.Region, group)
	if err != nil {
		return d, err
	}
	at := scope{account: source.Account, region: source.Region}
	now := s.now().UTC()
	keys := policy.Context{
		"aws:CurrentTime": {now.Format(time.RFC3339)}, "aws:EpochTime": {strconv.FormatInt(now.Unix(), 10)},
		"aws:PrincipalIsAWSService": {"true"}, "aws:PrincipalServiceName": {deliverer},
		"aws:RequestedRegion": {source.Region}, "aws:SecureTransport": {"true"},
		"aws:SourceAccount": {source.Account}, "aws:SourceArn": {source.ARN()},
	}
	for _, action := range deliveryActions {
		one := policy.Evaluate(&policy.Request{
			Action: action, Resource: at.groupARN(group) + ":log-stream:" + source.StreamName(),
			Principal: policy.Principal{Type: policy.Service, Name: deliverer}, Keys: keys, Budget: budget,
		}, &policy.Policies{Resource: policies, ResourceAccount: source.Account})
		if err := context.Cause(ctx); one.Err != nil && err != nil {
			return one, err
		}
		if d.Verdict == "" || d.Allowed() || one.Verdict == policy.ExplicitDeny {
			d = one
		}
	}
	return d, nil
}

// policiesOf returns the resource policies that speak about a log group.
func (s *Service) policiesOf(ctx context.Context, account, region, group string) ([]policy.Source, error) {
	rows, err := s.policies.List(ctx, record.LogResourcePolicyPrefix(account, region, types.PolicyScopeAccount))
	if err != nil {
		return nil, err
	}
	attached, err := s.policies.Get(ctx, record.LogResourcePolicyKey(account, region, types.PolicyScopeResource, group))
	if err == nil {
		rows = append(rows, attached)
	} else if !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	sources := make([]policy.Source, len(rows))
	for i, row := range rows {
		if sources[i].Document, err = policy.Compile(policy.Resource, row.Value.Document); err != nil {
			return nil, fmt.Errorf("the resource policy %s: %w", row.Key, err)
		}
	}
	return sources, nil
}

// admit returns the operations that let sources be delivered to a log group: none where resource policies do so, else
// those that attach a policy to it, or add to the one that is attached, for a caller with the permissions for that.
func (s *Service) admit(ctx context.Context, group string, sources ...record.LogDeliverySource) ([]store.Op, error) {
	admitted, budget := true, policy.NewBudget(ctx, admissionSteps)
	for _, source := range sources {
		switch d, err := s.decideDelivery(ctx, budget, source, group); {
		case err != nil:
			return nil, err
		case d.Err != nil || d.Verdict == policy.ExplicitDeny:
			return nil, notAdmitted(group, "%s may not create log streams and put log events there, %s. Change the resource "+
				"policies", deliverer, d.Reason())
		case !d.Allowed():
			admitted = false
		}
	}
	if admitted {
		return nil, nil
	}
	row, err := s.getGroup(ctx, group)
	if err != nil {
		return nil, err
	}
	if err := s.mayAdmit(ctx, group); err != nil {
		return nil, err
	}
	at := scopeOf(ctx)
	want := record.LogResourcePolicy{Account: at.account, Region: at.region, Name: admissionID, Group: group,
		Revision: newRevision(), UpdatedAt: s.timestamp()}
	attached, err := s.policies.Copy(ctx, want.Key())
	missing := errors.Is(err, store.ErrNotFound)
	if err != nil && !missing {
		return nil, err
	}
	if !missing {
		want.Name = attached.Value.Name
	}
	if want.Document, err = admittingDocument(attached.Value.Document, at, group); err != nil {
		return nil, err
	}
	return s.groupPolicyOps(row, attached, want, missing), nil
}

// mayAdmit refuses callers who may not attach a resource policy to a log group.
func (s *Service) mayAdmit(ctx context.Context, group string) error {
	put, err := s.streamTarget(ctx, "logs:PutResourcePolicy", group, "")
	if err != nil {
		return err
	}
	describe, list := put, newTarget("logs:DescribeLogGroups", scopeOf(ctx).groupARN("")+":log-stream:")
	describe.Action = "logs:DescribeResourcePolicies"
	err = wire.Authorize(ctx, put, describe, list)
	var denied *wire.Denied
	if errors.As(err, &denied) {
		return notAdmitted(group, "no resource policy lets %s create log streams and put log events there. Put one, or get "+
			"the permission for that: you are %v", deliverer, denied)
	}
	return err
}

func notAdmitted(group, format string, args ...any) error {
	return &types.AccessDeniedException{Message: new("Access Denied for this Delivery Destination, the log group " +
		group + ": " + fmt.Sprintf(format, args...) + ".")}
}

// admissionID is the ID of the statement that AWS adds, and the name of the policy that it attaches.
const admissionID = "AWSLogDeliveryWrite20150319"

// admission is the statement that lets the deliverer in.
type admission struct {
	Sid       string
	Effect    policy.Effect
	Principal map[string][]string
	Action    []string
	Resource  []string
	Condition map[string]map[string][]string
}

// admittingDocument returns a policy with the statement that lets the deliverer in: a new one, or a given one with it.
func admittingDocument(given string, at scope, group string) (string, error) {
	statement := admission{Sid: admissionID, Effect: policy.Allow,
		Principal: map[string][]string{"Service": {deliverer}}, Action: deliveryActions,
		Resource: []string{at.groupARN(group) + ":log-stream:*"},
		Condition: map[string]map[string][]string{
			"StringEquals": {"aws:SourceAccount": {at.account}},
			"ArnLike":      {"aws:SourceArn": {"arn:aws:logs:" + at.region + ":" + at.account + ":*"}},
		}}
	document := struct {
		Version   string            `json:",omitempty"`
		ID        string            `json:"Id,omitempty"`
		Statement []json.RawMessage // as they were written
	}{Version: "2012-10-17"}
	if given != "" {
		parsed, err := policy.Parse(policy.Resource, given)
		if err != nil {
			return "", err
		}
		document.Version, document.ID = parsed.Version, parsed.ID
		for i := 1; slices.ContainsFunc(parsed.Statements, func(have *policy.Statement) bool {
			return have.SID == statement.Sid
		}); i++ {
			statement.Sid = admissionID + strconv.Itoa(i)
		}
		var raw struct{ Statement json.RawMessage }
		if err := json.Unmarshal([]byte(given), &raw); err != nil {
			return "", err
		}
		if err := json.Unmarshal(raw.Statement, &document.Statement); err != nil { // it is one
			document.Statement = []json.RawMessage{raw.Statement}
		}
	}
	text, err := json.Marshal(statement)
	if err != nil {
		return "", err
	}
	document.Statement = append(document.Statement, text)
	text, err = json.Marshal(document)
	return string(text), err
}
