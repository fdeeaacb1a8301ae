package resource

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// RulePrefix begins the IDs of security group rules.
const RulePrefix = "sgr-"

// RuleNaming has the names of rules, which are resources of their own but live in the records of their groups.
var RuleNaming = Naming{
	Resource: types.ResourceTypeSecurityGroupRule, Prefix: RulePrefix, Noun: "security group rule ID",
	Parameter: "securityGroupRuleId",
	NotFound:  "InvalidSecurityGroupRuleId.NotFound", Malformed: "InvalidSecurityGroupRuleId.Malformed",
}

// ruleKind is the kind of security group rules.
type ruleKind struct{ s *Records }

// IDFormat returns the naming of rules.
func (k ruleKind) IDFormat() Naming { return RuleNaming }

func (k ruleKind) findGroup(sc Scope, id string) (record.SecurityGroup, error) {
	if err := RuleNaming.Validate(id); err != nil {
		return record.SecurityGroup{}, err
	}
	found, err := k.s.SecurityGroups.List(sc, func(g record.SecurityGroup) bool {
		return slices.ContainsFunc(g.Rules, func(r record.SecurityGroupRule) bool { return r.ID == id })
	})
	if err != nil {
		return record.SecurityGroup{}, err
	}
	if len(found) == 0 {
		return record.SecurityGroup{}, RuleNaming.Missing(id)
	}
	return found[0], nil
}

// CheckExists returns AWS's error about a rule that does not exist.
func (k ruleKind) CheckExists(sc Scope, id string) error {
	_, err := k.findGroup(sc, id)
	return err
}

// RequirePresent writes the group, so that who removes the rule sees the tags that it gets.
func (k ruleKind) RequirePresent(c *Change, id string) error {
	group, err := k.findGroup(c.Scope, id)
	if err != nil {
		return err
	}
	return k.s.SecurityGroups.ClaimRecord(c, group.ID)
}

func (k ruleKind) resolveVPC(sc Scope, id string) string {
	group, err := k.findGroup(sc, id)
	if err != nil {
		return ""
	}
	return group.VPCID
}
