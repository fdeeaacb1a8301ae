package policy

import (
	"fmt"
	"regexp"
	"strings"
)

// MalformedError describes an invalid document. Services answer it as MalformedPolicyDocument.
type MalformedError struct{ Message string }

func (e *MalformedError) Error() string { return e.Message }

func malformed(format string, args ...any) *MalformedError {
	return &MalformedError{fmt.Sprintf(format, args...)}
}

var (
	vendor     = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.-]*$`)
	actionName = regexp.MustCompile(`^[a-zA-Z0-9*?_-]+$`)
	accountID  = regexp.MustCompile(`^\d{12}$`)
)

// trustActions are the actions that a role's trust policy may name.
var trustActions = map[string]bool{
	"sts:assumerole": true, "sts:assumerolewithwebidentity": true, "sts:assumerolewithsaml": true,
	"sts:tagsession":        true,
	"sts:setsourceidentity": true, "sts:setcontext": true, "sts:*": true, "*": true,
}

func checkAction(kind Kind, action string) error {
	if action != "*" {
		service, name, ok := strings.Cut(action, ":")
		switch {
		case !ok:
			return malformed("Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc. Got %q.",
				action)
		case strings.ContainsAny(service, "*?"):
			return malformed("Action vendors must be fully qualified and cannot contain regexes. Got %q.", action)
		case !vendor.MatchString(service):
			return malformed("Vendor %s is not valid", service)
		case !actionName.MatchString(name):
			return malformed("The policy failed legacy parsing: %q is not an action.", action)
		}
	}
	if kind != Trust {
		return nil
	}
	lower := strings.ToLower(action)
	if trustActions[lower] {
		return nil
	}
	if wild := compileActions([]string{action}); strings.HasPrefix(lower, "sts:") {
		for known := range trustActions {
			if _, name, ok := strings.Cut(known, ":"); ok && name != "*" && wild.matchesAction("sts", name,
				&evaluation{}) {
				return nil
			}
		}
	}
	return malformed("AssumeRole policy may only specify STS AssumeRole actions. Got %q.", action)
}

func checkResource(resource string) error {
	if resource == "*" {
		return nil
	}
	if strings.HasPrefix(resource, "${") { // a variable may hold an ARN
		return nil
	}
	parts := splitARN(resource)
	wildTail := len(parts) > 2 && strings.HasSuffix(parts[len(parts)-1], "*")
	if parts[0] != "arn" || len(parts) < arnParts && !wildTail {
		return malformed("Resource %s must be in ARN format or \"*\".", resource)
	}
	if partition := parts[1]; partition != "*" && partition != "${aws:Partition}" && partition != "aws" &&
		!strings.HasPrefix(partition, "aws-") {
		return malformed("Partition %q is not valid for resource %q.", partition, resource)
	}
	if len(parts) < arnParts {
		return nil
	}
	service, region, account, id := parts[2], parts[3], parts[4], parts[5]
	switch {
	case strings.ContainsAny(service, "?*") && service != "*":
		return malformed("Resource vendor must be fully qualified and cannot contain regexes. Got %q.", resource)
	case service == "" || id == "":
		return malformed("Resource %s must be in ARN format or \"*\".", resource)
	case service == "iam" && region != "" && region != "*":
		return malformed("IAM resource %s cannot contain region information.", resource)
	case service == "iam" && account != "aws" && !accountID.MatchString(account) && !strings.ContainsAny(account,
		"*?$"):
		return malformed("The policy failed legacy parsing: %q has the account %q, which is not a twelve-digit number.",
			resource, account)
	}
	return nil
}

func isAlphanumeric(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') {
			return false
		}
	}
	return true
}
