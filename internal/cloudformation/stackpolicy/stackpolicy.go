// Package stackpolicy evaluates stack policies, which protect resources of a stack from updates. It is pure.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/protect-stack-resources.html
package stackpolicy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Policy is a parsed stack policy. The zero Policy, of a stack without one, allows everything.
type Policy struct{ statements []statement }

type statement struct {
	Effect      string
	Action      texts
	NotAction   texts
	Principal   json.RawMessage
	Resource    texts
	NotResource texts
	Condition   map[string]map[string]texts
}

// texts is a string or a list of strings.
type texts []string

// UnmarshalJSON decodes a string or a list of strings.
func (t *texts) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(t))
}

// MaxSize is the maximum size of a policy in bytes.
const MaxSize = 16384

// The actions of policies.
const (
	Modify  = "Update:Modify"
	Replace = "Update:Replace"
	Delete  = "Update:Delete"
)

var actions = []string{Modify, Replace, Delete, "Update:*", "*"}

// Parse reads a policy. The empty text is that of a stack without a policy.
func Parse(text string) (Policy, error) {
	if text == "" {
		return Policy{}, nil
	}
	var document struct{ Statement json.RawMessage }
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	var raw map[string]json.RawMessage
	if err := decoder.Decode(&raw); err != nil || decoder.More() {
		return Policy{}, fmt.Errorf("the policy is not a JSON object")
	}
	document.Statement = raw["Statement"]
	var p Policy
	if json.Unmarshal(document.Statement, &p.statements) != nil {
		var one statement
		if json.Unmarshal(document.Statement, &one) != nil {
			return Policy{}, fmt.Errorf("the policy has no valid Statement")
		}
		p.statements = []statement{one}
	}
	if len(p.statements) == 0 {
		return Policy{}, fmt.Errorf("the policy has no Statement")
	}
	for i, s := range p.statements {
		if err := s.validateStatement(); err != nil {
			return Policy{}, fmt.Errorf("statement #%d: %w", i+1, err)
		}
	}
	return p, nil
}

func (s statement) validateStatement() error {
	switch {
	case s.Effect != "Allow" && s.Effect != "Deny":
		return fmt.Errorf("Effect must be Allow or Deny") //nolint:staticcheck // the name of a member
	case (len(s.Action) == 0) == (len(s.NotAction) == 0):
		return fmt.Errorf("either Action or NotAction is required")
	case (len(s.Resource) == 0) == (len(s.NotResource) == 0):
		return fmt.Errorf("either Resource or NotResource is required")
	case string(s.Principal) != `"*"`:
		return fmt.Errorf(`Principal must be "*"`) //nolint:staticcheck // the name of a member
	}
	for _, action := range slices.Concat(s.Action, s.NotAction) {
		if !slices.Contains(actions, action) {
			return fmt.Errorf("the action %q does not exist", action)
		}
	}
	for _, resource := range slices.Concat(s.Resource, s.NotResource) {
		if resource != "*" && !strings.HasPrefix(resource, "LogicalResourceId/") {
			return fmt.Errorf("the resource %q is not of the form LogicalResourceId/NAME", resource)
		}
	}
	for operator, keys := range s.Condition {
		if operator != "StringEquals" && operator != "StringLike" {
			return fmt.Errorf("the condition operator %q does not exist", operator)
		}
		for key := range keys {
			if key != "ResourceType" {
				return fmt.Errorf("the condition key %q does not exist", key)
			}
		}
	}
	return nil
}

// Denial returns why a policy does not allow an action on a resource, in the words of AWS; empty when it does.
func (p Policy) Denial(action, logicalID, resourceType string) string {
	if len(p.statements) == 0 {
		return ""
	}
	allowed := false
	for i, s := range p.statements {
		if !s.applies(action, logicalID, resourceType) {
			continue
		}
		if s.Effect == "Deny" {
			return fmt.Sprintf("Action denied by stack policy: Statement [#%d] denies [%s] for resource [%s]", i+1,
				action, "LogicalResourceId/"+logicalID)
		}
		allowed = true
	}
	if allowed {
		return ""
	}
	return fmt.Sprintf("Action not allowed by stack policy: no statement allows [%s] for resource [%s]", action,
		"LogicalResourceId/"+logicalID)
}

func (s statement) applies(action, logicalID, resourceType string) bool {
	has := func(list texts, value string) bool {
		return slices.ContainsFunc(list, func(pattern string) bool { return matches(pattern, value) })
	}
	if len(s.Action) > 0 && !has(s.Action, action) || len(s.NotAction) > 0 && has(s.NotAction, action) {
		return false
	}
	resource := "LogicalResourceId/" + logicalID
	if len(s.Resource) > 0 && !has(s.Resource, resource) || len(s.NotResource) > 0 && has(s.NotResource, resource) {
		return false
	}
	for operator, keys := range s.Condition {
		values := keys["ResourceType"]
		if operator == "StringEquals" && !slices.Contains(values, resourceType) ||
			operator == "StringLike" && !has(values, resourceType) {
			return false
		}
	}
	return true
}

// matches reports whether a text matches a pattern with "*".
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = after
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}
