package logs

import (
	"context"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// groupName matches the names of log groups.
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_CreateLogGroup.html
var groupName = regexp.MustCompile(`^[\.\-_/#A-Za-z0-9]{1,512}$`)

const groupNameConstraint = `Member must satisfy regular expression pattern: [\.\-_/#A-Za-z0-9]+`

// nameOfIdentifier returns the name of the log group that an identifier means: a name, or the ARN of a group of the
// caller's without ":*". A group of another account or region is one that isn't there, since nothing links accounts
// here.
func (sc scope) nameOfIdentifier(member, identifier string) (name string, err error) {
	if !strings.HasPrefix(identifier, "arn:") {
		if !groupName.MatchString(identifier) {
			return "", invalidValue(member, identifier, groupNameConstraint)
		}
		return identifier, nil
	}
	arn, ok := parseARN(identifier)
	if !ok {
		return "",
			invalidParameter(
				"The value %s of %s is not the ARN of a log group: write arn:aws:logs:%s:%s:log-group:NAME, without "+
					":* at its end", identifier, member, sc.region, sc.account)
	}
	if arn.account != sc.account || arn.region != sc.region {
		return "", groupNotFound()
	}
	return arn.group, nil
}

// groupARN is the ARN of a log group in its parts.
type groupARN struct{ region, account, group string }

func parseARN(text string) (groupARN, bool) {
	parts := strings.SplitN(text, ":", 7)
	if len(parts) != 7 || parts[0] != "arn" || parts[1] != "aws" || parts[2] != "logs" || parts[5] != "log-group" ||
		!groupName.MatchString(parts[6]) {
		return groupARN{}, false
	}
	return groupARN{region: parts[3], account: parts[4], group: parts[6]}, true
}

// nameOrIdentifier returns the name of the group that a request means by exactly one of two members.
func (sc scope) nameOrIdentifier(name, identifier *string) (string, error) {
	switch {
	case name == nil && identifier == nil:
		return "", invalidParameter("Either logGroupName or logGroupIdentifier must be specified")
	case name != nil && identifier != nil:
		return "", invalidParameter("logGroupName and logGroupIdentifier are mutually exclusive: specify one of them")
	case name != nil:
		return *name, nil
	}
	return sc.nameOfIdentifier("logGroupIdentifier", *identifier)
}

// groupBy returns the group that a request means by its name or its identifier.
func (s *Service) groupBy(ctx context.Context, name, identifier *string) (store.Row[record.LogGroup], error) {
	text, err := scopeOf(ctx).nameOrIdentifier(name, identifier)
	if err != nil {
		return store.Row[record.LogGroup]{}, err
	}
	return s.getGroup(ctx, text)
}

// nameFor returns the group's name for the purpose of authorization: what cannot be a name is returned as it came.
func (sc scope) nameFor(name, identifier *string) string {
	if name != nil {
		return *name
	}
	text := aws.ToString(identifier)
	if arn, ok := parseARN(text); ok {
		return arn.group
	}
	return text
}
