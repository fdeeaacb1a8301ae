package identity

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// maxEncodedKeys and maxEncodedValues are the numbers of condition keys, and of values of each, in an encoded message.
const maxEncodedKeys, maxEncodedValues = 64, 16

// encodedDenial is the content of an encoded authorization message: the account whose principals may decode it, and
// what they are told.
type encodedDenial struct {
	Account string          `json:"a"`
	Message json.RawMessage `json:"m"`
}

// items is a list in a decoded message.
type items[T any] struct {
	Items []T `json:"items"`
}

type decodedValue struct {
	Value string `json:"value"`
}

type decodedCondition struct {
	Key    string              `json:"key"`
	Values items[decodedValue] `json:"values"`
}

type decodedStatement struct {
	StatementID    string `json:"statementId"`
	Effect         string `json:"effect"`
	SourcePolicyID string `json:"sourcePolicyId"`
}

// decodedMessage is what sts:DecodeAuthorizationMessage tells of a request that was refused.
//
// https://docs.aws.amazon.com/STS/latest/APIReference/API_DecodeAuthorizationMessage.html
type decodedMessage struct {
	Allowed           bool                    `json:"allowed"`
	ExplicitDeny      bool                    `json:"explicitDeny"`
	MatchedStatements items[decodedStatement] `json:"matchedStatements"`
	Failures          items[string]           `json:"failures"`
	Context           struct {
		Principal struct {
			ID  string `json:"id"`
			ARN string `json:"arn"`
		} `json:"principal"`
		Action     string                  `json:"action"`
		Resource   string                  `json:"resource"`
		Conditions items[decodedCondition] `json:"conditions"`
	} `json:"context"`
}

// encodeDenial returns the message that [Identity.DecodeDenial] decodes; empty for services whose errors have none.
func (i *Identity) encodeDenial(ctx context.Context, caller wire.Caller, t wire.Target, d policy.Decision) (
	string, error) {
	if service, _ := wire.OperationFrom(ctx); service != wire.EC2 {
		return "", nil
	}
	var m decodedMessage
	m.ExplicitDeny = d.Verdict == policy.ExplicitDeny
	m.MatchedStatements.Items, m.Failures.Items = []decodedStatement{}, []string{}
	if d.Statement != nil && d.Policy != nil {
		m.MatchedStatements.Items = append(m.MatchedStatements.Items, decodedStatement{
			StatementID: cutDenial(d.Statement.SID), Effect: "DENY", SourcePolicyID: cutDenial(d.Policy.Name)})
	}
	m.Context.Principal.ID, m.Context.Principal.ARN = caller.UserID, caller.ARN
	m.Context.Action, m.Context.Resource = t.Action, cutDenial(cmp.Or(t.Named, t.Resource))
	keys := map[string][]string{}
	if (t.Owner == "" || t.Owner == caller.Account) && !strings.HasPrefix(t.Action, "kms:") {
		// What is known of others' resources, and of keys that the caller may not use, is not theirs to learn.
		maps.Copy(keys, t.Conditions)
	}
	maps.Copy(keys, wire.GlobalConditions(ctx))
	m.Context.Conditions.Items = []decodedCondition{}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if len(m.Context.Conditions.Items) == maxEncodedKeys {
			break
		}
		c := decodedCondition{Key: cutDenial(key), Values: items[decodedValue]{Items: []decodedValue{}}}
		for _, value := range keys[key][:min(len(keys[key]), maxEncodedValues)] {
			c.Values.Items = append(c.Values.Items, decodedValue{cutDenial(value)})
		}
		m.Context.Conditions.Items = append(m.Context.Conditions.Items, c)
	}
	message, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	return i.sealer.seal(ctx, authorizationMessage, "", encodedDenial{caller.Account, message})
}

// DecodeDenial decodes the encoded authorization message of an error, for a principal of an account. ok is false for a
// text that is none, or one for another account.
func (i *Identity) DecodeDenial(ctx context.Context, account, encoded string) (message string, ok bool) {
	var d encodedDenial
	if i.sealer.open(ctx, authorizationMessage, "", encoded, &d) != nil || d.Account != account {
		return "", false
	}
	return string(d.Message), true
}
