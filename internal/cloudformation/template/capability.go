package template

import (
	"slices"
	"strings"
)

// The capabilities that a caller acknowledges.
const (
	CapabilityIAM        = "CAPABILITY_IAM"
	CapabilityNamedIAM   = "CAPABILITY_NAMED_IAM"
	CapabilityAutoExpand = "CAPABILITY_AUTO_EXPAND"
)

// identityNames are the types that can change permissions, with the property that names them, "" for none.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/control-access-with-iam.html
var identityNames = map[string]string{
	"AWS::IAM::AccessKey":           "",
	"AWS::IAM::Group":               "GroupName",
	"AWS::IAM::InstanceProfile":     "InstanceProfileName",
	"AWS::IAM::ManagedPolicy":       "ManagedPolicyName",
	"AWS::IAM::Policy":              "",
	"AWS::IAM::Role":                "RoleName",
	"AWS::IAM::User":                "UserName",
	"AWS::IAM::UserToGroupAddition": "",
}

// Capabilities returns the capabilities that the template needs, and why, as far as it shows without its parameters.
// CAPABILITY_NAMED_IAM includes CAPABILITY_IAM.
func (t *Template) Capabilities() (capabilities []string, reason string) {
	return t.capabilitiesOf(t.resources)
}

// Capabilities returns the capabilities that the template needs, and why: also for the resources that loops make.
func (b *Bound) Capabilities() (capabilities []string, reason string) {
	return b.template.capabilitiesOf(b.allResources())
}

func (t *Template) capabilitiesOf(resources map[string]any) (capabilities []string, reason string) {
	var kinds []string
	named := false
	visitResources(resources, func(_, kind string, properties any) {
		name, ok := identityNames[kind]
		if !ok {
			return
		}
		kinds = append(kinds, kind)
		if name != "" && hasMember(properties, name) {
			named = true
		}
	})
	var reasons []string
	switch {
	case named:
		capabilities = append(capabilities, CapabilityNamedIAM)
	case len(kinds) > 0:
		capabilities = append(capabilities, CapabilityIAM)
	}
	if len(kinds) > 0 {
		reasons = append(reasons, "The following resource(s) require capabilities: "+inBrackets(kinds))
	}
	if len(t.Transforms) > 0 {
		capabilities = append(capabilities, CapabilityAutoExpand)
		reasons = append(reasons, "The following transform(s) require capabilities: "+inBrackets(append([]string{},
			t.Transforms...)))
	}
	return capabilities, strings.Join(reasons, ", ")
}

// MissingCapabilities returns those of needs that given does not have. CAPABILITY_AUTO_EXPAND is not needed for
// AWS::LanguageExtensions, which runs no code.
func (t *Template) MissingCapabilities(needs, given []string) []string {
	return slices.DeleteFunc(slices.Clone(needs), func(need string) bool {
		return slices.Contains(given, need) || need == CapabilityIAM && slices.Contains(given, CapabilityNamedIAM) ||
			need == CapabilityAutoExpand && !slices.ContainsFunc(t.Transforms, func(name string) bool {
				return name != "AWS::LanguageExtensions"
			})
	})
}

// hasMember reports whether properties have a member, or may have it: they may be what a function makes.
func hasMember(properties any, name string) bool {
	object, _ := properties.(map[string]any)
	function, argument := functionOf(object)
	switch {
	case function == "":
		_, ok := object[name]
		return ok
	case function == "Ref":
		return false // AWS::NoValue: other values are no objects
	case strings.EqualFold(function, "Fn::If"):
		branches, _ := argument.([]any)
		return slices.ContainsFunc(branches, func(branch any) bool { return hasMember(branch, name) })
	}
	return true
}
