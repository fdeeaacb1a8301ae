package cloudtrail

import (
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// hiddenValue stands for values that may be secret.
const hiddenValue = "HIDDEN_DUE_TO_SECURITY_REASONS"

// secretNames are parts of the names of members whose values are secret, in lower case.
var secretNames = []string{"activationcode", "assertion", "credential", "keymaterial", "passphrase", "password",
	"plaintext", "presharedkey", "privatekey", "secret", "tokencode", "userdata"}

// plainTokens are the members whose names end in "token" and whose values are no credentials, in lower case.
var plainTokens = []string{"clientrequesttoken", "clienttoken", "creationtoken", "idempotencytoken",
	"nextbackwardtoken", "nextforwardtoken", "nextsequencetoken", "nexttoken", "sequencetoken"}

// ofService are the members of some services whose values may be secret, in lower case.
var ofService = map[*wire.Service][]string{
	wire.SSM:            {"value"},                          // of a parameter
	wire.CloudFormation: {"parametervalue", "templatebody"}, // what a template is given, or has in its text
}

// hidden returns which values of the requests and responses of a service are not recorded.
func hidden(service *wire.Service) wire.Hidden {
	return func(member string) string {
		name := strings.ToLower(member)
		switch {
		case strings.HasSuffix(name, "arn") || strings.HasSuffix(name, "arns"):
			return ""
		case strings.HasSuffix(name, "token") && !slices.Contains(plainTokens, name),
			slices.ContainsFunc(secretNames, func(part string) bool { return strings.Contains(name, part) }),
			slices.Contains(ofService[service], name):
			return hiddenValue
		}
		return ""
	}
}
