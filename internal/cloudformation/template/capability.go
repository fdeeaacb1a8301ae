package template

import (
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

// Capabilities returns the capabilities that the template needs, and why. CAPABILITY_NAMED_IAM includes CAPABILITY_IAM.
func (t *Template) Capabilities() (capabilities []string, reason string) {
	var kinds []string
	named := false
	t.visitResources(t.resources, func(_, kind string, properties map[string]any) {
		name, ok := identityNames[kind]
		if !ok {
			return
		}
		kinds = append(kinds, kind)
		if _, given := properties[name]; given && name != "" {
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
