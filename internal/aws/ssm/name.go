package ssm

import (
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

const (
	deepest     = 15   // levels of a hierarchy
	longestName = 1011 // characters, without the ARN's beginning
)

var (
	nameForm = regexp.MustCompile(`^[a-zA-Z0-9_.\-/]+$`)
	pathForm = regexp.MustCompile(`^/([a-zA-Z0-9_.\-]+/)*[a-zA-Z0-9_.\-]*$`)
)

// checkNewName refuses a name that no parameter of an account can have.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/sysman-paramstore-su-create.html#sysman-parameter-name-constraints
func checkNewName(name string) error {
	first, _, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	first = strings.ToLower(first)
	switch {
	case strings.HasPrefix(name, "/") && strings.HasPrefix(first, "aws"):
		return &wire.Error{Code: "AccessDeniedException", Message: "No access to reserved parameter name: " +
			strings.TrimPrefix(name, "/") + "."}
	case strings.HasPrefix(first, "ssm"):
		return reservedPrefix(`"ssm"`)
	case strings.HasPrefix(first, "aws"):
		return reservedPrefix(`"aws" or "ssm"`)
	case strings.Contains(name, "/") && !strings.HasPrefix(name, "/"):
		return validation("Parameter name must be a fully qualified name.")
	case !nameForm.MatchString(name), strings.HasSuffix(name, "/"), strings.Contains(name, "//"):
		return validation(
			"Parameter name: can't be empty, and can only be formed as a mix of letters, numbers and the following 3 "+
				"symbols .-_ , with sub-paths divided by slash symbols: %s", name)
	case len(name) > longestName:
		return validation("Parameter name: can't be longer than %d characters, but has %d", longestName, len(name))
	case strings.Count(name, "/") > deepest:
		return &types.HierarchyLevelLimitExceededException{
			Message: new("The hierarchy can have a maximum of 15 levels. Parameter name: " + name)}
	}
	return nil
}

// reservedPrefix refuses a name that begins as no name of an account does.
func reservedPrefix(prefix string) error {
	return validation("Parameter name: can't be prefixed with %s (case-insensitive). If formed as a path, it can consist "+
		"of sub-paths divided by slash symbol; each sub-path can be formed as a mix of letters, numbers and the following "+
		"3 symbols .-_", prefix)
}

// checkPath refuses what is no path of a hierarchy.
func checkPath(path string) error {
	if pathForm.MatchString(path) {
		return nil
	}
	return validation(
		`The parameter doesn't meet the parameter name requirements. The parameter name must begin with a forward slash "/". It can't be prefixed with "aws" or "ssm" (case-insensitive). It must use only letters, numbers, or the following symbols: . (period), - (hyphen), _ (underscore). Special characters are not allowed. All sub-paths, if specified, must use the forward slash symbol "/". Valid example: /get/parameters2-/by1./path0_.`)
}

// isBelowPath reports whether a parameter is in the hierarchy under a path, directly or, recursively, anywhere.
func isBelowPath(path, name string, recursive bool) bool {
	rest, ok := strings.CutPrefix(name, strings.TrimSuffix(path, "/")+"/")
	return ok && rest != "" && (recursive || !strings.Contains(rest, "/"))
}

// reference names a parameter in a request: by name or ARN, optionally with a version or a label.
type reference struct {
	asked    string // as it was asked
	name     string
	selector string // "" for the latest version, else "3" or a label
}

// hierarchyPath returns the hierarchy that a request names by path or ARN.
func (sc scope) hierarchyPath(asked string) string {
	if rest, ok := strings.CutPrefix(asked, sc.parameterARN("")); ok {
		return "/" + strings.TrimPrefix(rest, "/")
	}
	return asked
}

func (sc scope) parseReference(asked string) (reference, error) {
	r := reference{asked: asked, name: asked}
	if rest, ok := strings.CutPrefix(asked, "arn:"); ok {
		parts := strings.SplitN(rest, ":", 5) // partition, service, region, account, resource
		if len(parts) < 5 || parts[1] != "ssm" || !strings.HasPrefix(parts[4], "parameter/") {
			return r, validation("Invalid parameter ARN: %s", asked)
		}
		if parts[2] != sc.region || parts[3] != "" && parts[3] != sc.account {
			return r, notFound()
		}
		r.name = strings.TrimPrefix(parts[4], "parameter")
		// The ARN of "/a" and that of "a" are the same; only a name with one level can be either.
		r.name, r.selector, _ = strings.Cut(r.name, ":")
		if !nameForm.MatchString(r.name) || strings.Contains(r.name, "//") || strings.HasSuffix(r.name, "/") {
			return r, validation("Invalid parameter ARN: %s", asked)
		}
		return r, nil
	}
	r.name, r.selector, _ = strings.Cut(asked, ":")
	if !nameForm.MatchString(r.name) || strings.HasSuffix(asked, ":") || strings.Contains(r.selector, ":") {
		return r,
			validation(
				"Invalid parameter name. Please use correct syntax for referencing a version/label: "+
					"<name>:<version/label>: %s", asked)
	}
	return r, nil
}
